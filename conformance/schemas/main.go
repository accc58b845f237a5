// Schemas writes the schema of every kind for the embedded API server: the fields and tags of the Go types, joined
// with the lists, maps and required fields of OpenAPI.
//
//	schemas types             writes the types as JSON on standard output
//	schemas proto < v2.json   turns an OpenAPI v2 document into the protobuf form that kubectl asks for
//	schemas round < lines     decodes and encodes documents as the server does, to compare with
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("one argument is needed: types, proto or round")
	}
	switch args[0] {
	case "types":
		return json.NewEncoder(os.Stdout).Encode(allTypes())
	case "proto":
		return toProto()
	case "round":
		return roundTrips()
	}
	return fmt.Errorf("%q is none of types, proto and round", args[0])
}

func toProto() error {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	document, err := openapiv2.ParseDocument(text)
	if err != nil {
		return err
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(document)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(encoded)
	return err
}
