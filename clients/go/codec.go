package paceline

import (
	"fmt"

	"google.golang.org/protobuf/proto"
)

// codec writes messages by google.golang.org/protobuf, whichever generation of it the grpc-go that it is built with uses by itself.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(message interface{}) ([]byte, error) {
	known, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("paceline: %T is no protobuf message", message)
	}
	return proto.Marshal(known)
}

func (codec) Unmarshal(data []byte, message interface{}) error {
	known, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("paceline: %T is no protobuf message", message)
	}
	return proto.Unmarshal(data, known)
}
