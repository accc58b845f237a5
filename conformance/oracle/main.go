// Command oracle answers test cases with the real kube-scheduler code.
//
// It reads JSON lines on standard input and writes JSON lines on standard output, in the same order:
//
//	oracle stored [--validate]  cases with their objects as the API server stores them
//	oracle decide [--orders N]  what the scheduler decides for the pod of each case
//	oracle config               what the scheduler makes of each configuration file
//
// One command reads a cluster instead, one object a line, and writes one line for each drain:
//
//	oracle bench [--runs N]     how fast the scheduler decides on the pods that wait
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// run dispatches to one of the commands.
func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: oracle stored|decide|config|bench [flags]")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	workers := flags.Int("workers", 2, "number of cases answered at the same time")
	orders := flags.Int("orders", 256, "decide: arrival orders of equally important pods tried on a node, at least, while they bring nothing new")
	validate := flags.Bool("validate", false, "stored: refuse cases with pods that the API server refuses")
	var benchmark benchOptions
	flags.StringVar(&benchmark.config, "config", "", "bench: a configuration file; none is the default configuration")
	flags.StringVar(&benchmark.percentages, "percentages", "100", "bench: percentageOfNodesToScore, several with commas between them")
	flags.IntVar(&benchmark.runs, "runs", 1, "bench: drains for each percentage")
	flags.Float64Var(&benchmark.seconds, "seconds", 5, "bench: a drain ends after that long")
	verbose := flags.Bool("verbose", false, "write the scheduler's own log to standard error")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if !*verbose {
		klog.SetLogger(klog.LoggerWithName(discardLogger(), ""))
	}
	var answer func([]byte) (any, error)
	switch args[0] {
	case "stored":
		answer = func(line []byte) (any, error) { return answerStored(line, *validate) }
	case "decide":
		answer = func(line []byte) (any, error) { return answerDecide(line, *orders) }
	case "config":
		answer = answerConfig
	case "bench":
		return answerBench(in, out, benchmark)
	default:
		return fmt.Errorf("unknown command %q", args[0])
	}
	return answerLines(in, out, *workers, answer)
}
