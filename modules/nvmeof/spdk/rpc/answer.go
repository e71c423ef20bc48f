package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

const (
	// maxRequest is SPDK's receive buffer; it drops the connection of whoever
	// sends more.
	maxRequest = 256 << 10
	// maxAnswer bounds one answer in bytes. 1,200 bdevs are 1.1 MB.
	maxAnswer = 64 << 20
)

type request struct {
	JSONRPC string `json:"jsonrpc"`
	ID      uint64 `json:"id"`
	Method  string `json:"method"`
	// Params is left out when nil: some methods refuse even an empty object.
	Params any `json:"params,omitempty"`
}

// answer is one line from SPDK. id is 0 where SPDK could not read the request's.
type answer struct {
	id     uint64
	result json.RawMessage
	err    *Error
}

// decode reads one answer. Anything that is not exactly one is an error, after
// which the connection cannot be trusted any more.
func decode(line []byte) (answer, error) {
	var wire struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result"`
		Error   *struct {
			Code    *int    `json:"code"`
			Message *string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(line, &wire); err != nil {
		return answer{}, fmt.Errorf("answer is not a JSON object: %w", err)
	}
	if wire.JSONRPC != "2.0" {
		return answer{}, fmt.Errorf("answer has jsonrpc %q, must be 2.0", wire.JSONRPC)
	}
	if (wire.Result == nil) == (wire.Error == nil) {
		return answer{}, errors.New("answer must have either result or error")
	}
	a := answer{result: wire.Result}
	if wire.Error != nil {
		if wire.Error.Code == nil || wire.Error.Message == nil {
			return answer{}, errors.New("error of the answer must have code and message")
		}
		a.err = &Error{Code: *wire.Error.Code, Message: *wire.Error.Message}
	}
	if bytes.Equal(wire.ID, []byte("null")) {
		if a.err == nil {
			return answer{}, errors.New("answer with a result has no id")
		}
		return a, nil
	}
	id, err := strconv.ParseUint(string(wire.ID), 10, 64)
	if err != nil || id == 0 {
		return answer{}, fmt.Errorf("answer has id %.40q, which was never used", wire.ID)
	}
	a.id = id
	return a, nil
}
