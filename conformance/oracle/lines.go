package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/go-logr/logr"
)

// failed stands for the answer to a case which ended in a panic or in an error of the oracle itself.
type failed struct {
	ID    string `json:"id"`
	Panic string `json:"panic"`
}

// answerLines answers each line of in with several workers and writes the answers in the order of the lines.
func answerLines(in io.Reader, out io.Writer, workers int, answer func([]byte) (any, error)) error {
	pending := make(chan chan []byte, 4*workers)
	slots := make(chan struct{}, workers)
	var readError error
	go func() {
		defer close(pending)
		readError = eachLine(in, func(line []byte) {
			reply := make(chan []byte, 1)
			pending <- reply
			slots <- struct{}{}
			go func() {
				defer func() { <-slots }()
				reply <- answerLine(line, answer)
			}()
		})
	}()
	writer := bufio.NewWriterSize(out, 1<<20)
	var writeError error
	for reply := range pending {
		if _, err := writer.Write(append(<-reply, '\n')); err != nil && writeError == nil {
			writeError = err
		}
		if len(pending) == 0 && writeError == nil {
			writeError = writer.Flush()
		}
	}
	return errors.Join(readError, writeError, writer.Flush())
}

// eachLine calls f with a copy of each line that is not empty, however long it is.
func eachLine(in io.Reader, f func([]byte)) error {
	reader := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			f(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// answerLine answers one line; a panic or an error becomes the answer, so that the run goes on.
func answerLine(line []byte, answer func([]byte) (any, error)) (reply []byte) {
	defer func() {
		if reason := recover(); reason != nil {
			reply = failure(line, fmt.Sprintf("%v\n%s", reason, debug.Stack()))
		}
	}()
	value, err := answer(line)
	if err != nil {
		return failure(line, err.Error())
	}
	buffer := &bytes.Buffer{}
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return failure(line, err.Error())
	}
	return bytes.TrimSpace(buffer.Bytes())
}

// failure encodes the answer to a line that could not be answered.
func failure(line []byte, reason string) []byte {
	var named struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(line, &named); err != nil {
		reason = fmt.Sprintf("%v; %s", err, reason)
	}
	reply, err := json.Marshal(failed{ID: named.ID, Panic: reason})
	if err != nil {
		panic(err)
	}
	return reply
}

// discardLogger swallows the scheduler's log.
func discardLogger() logr.Logger { return logr.Discard() }
