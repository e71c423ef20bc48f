package rpc

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/distort-io/distort/modules/nvmeof"
)

var (
	// ErrNoAnswer: the request was sent, but no answer came in time or the
	// connection was lost. What it asked for may have been done, may still be going
	// on, or was never begun.
	ErrNoAnswer = errors.New("no answer from SPDK")
	// ErrNoMethod: this SPDK does not know the method. It is also
	// nvmeof.ErrUnsupported.
	ErrNoMethod = errors.New("method not known to this SPDK")
)

const codeNoMethod = -32601 // JSON-RPC 2.0: Method not found

// Error is what SPDK answered instead of a result.
type Error struct {
	Method  string
	Code    int
	Message string
}

// Error names method, text and code.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: SPDK says %q (code %d)", e.Method, e.Message, e.Code)
}

// Is makes an Error the syscall.Errno that it names, and ErrNoMethod.
func (e *Error) Is(target error) bool {
	if target == ErrNoMethod || target == nvmeof.ErrUnsupported {
		return e.Code == codeNoMethod
	}
	errno, ok := target.(syscall.Errno)
	return ok && e.names(errno)
}

// names tells whether the answer stands for errno. SPDK puts it into the code
// when it finds the cause at once, and only its text into the message when it
// finds it later: "File exists" comes with -17 and with -32602.
func (e *Error) names(errno syscall.Errno) bool {
	if e.Code == -int(errno) && e.Code < -1 { // -1 is also "method not allowed in this state"
		return true
	}
	return strings.EqualFold(e.Message, errno.Error())
}
