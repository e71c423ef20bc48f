// Package command is the agent's only way to start another program: an absolute
// argument vector, no shell, a context that ends the whole process group, and a
// typed error with the exit code (design.md §11).
package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Cmd is one program start. Args does not contain the program name. Operands
// that come from outside follow a "--" argument, which the caller places.
type Cmd struct {
	Name  string
	Args  []string
	Stdin string
}

// New returns the command name with args and an empty standard input.
func New(name string, args ...string) Cmd {
	return Cmd{Name: name, Args: args}
}

// WithStdin returns a copy of c that is fed text on its standard input.
func (c Cmd) WithStdin(text string) Cmd {
	c.Stdin = text
	return c
}

// String is the command as a reader of a log would type it. Standard input is
// left out.
func (c Cmd) String() string {
	return strings.Join(append([]string{c.Name}, c.Args...), " ")
}

// Result is what a program printed.
type Result struct {
	Stdout []byte
	Stderr []byte
}

// Runner runs one command to its end. A non-zero exit is an *ExitError and comes
// with the Result; a program that could not be started, or was killed because
// ctx ended, is another error. Run returns only when the process is gone, so
// that a caller which holds a lock around Run never has a stray writer behind it.
type Runner interface {
	Run(ctx context.Context, c Cmd) (Result, error)
}

// ExitError says that a program ran and answered with a code other than 0.
type ExitError struct {
	Cmd    string // as Cmd.String
	Code   int    // exit code, 1 to 255
	Stderr string // trimmed, bounded
}

func (e *ExitError) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("%s: exit code %d", e.Cmd, e.Code)
	}
	return fmt.Sprintf("%s: exit code %d: %s", e.Cmd, e.Code, e.Stderr)
}

// ExitCode returns the exit code that err carries, and false when err does not
// come from a program that ran to its end.
func ExitCode(err error) (int, bool) {
	var exit *ExitError
	if errors.As(err, &exit) {
		return exit.Code, true
	}
	return 0, false
}
