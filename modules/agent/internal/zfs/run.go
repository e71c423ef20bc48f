package zfs

import (
	"context"
	"fmt"
	"strings"

	"github.com/distort-io/distort/modules/agent/internal/command"
)

// run starts a program of ZFS and returns the lines that it printed. The caller
// holds the lock of what the program works on.
func (m *Manager) run(ctx context.Context, name string, args ...string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	result, err := m.runner.Run(ctx, command.New(name, args...))
	if err != nil {
		return nil, Classify(err)
	}
	out := strings.TrimSuffix(string(result.Stdout), "\n")
	if out == "" {
		return nil, nil
	}
	return strings.Split(out, "\n"), nil
}

// fields splits a line of the scripted format, which must have n of them: a tab or
// a line break in a property shows as another number.
func fields(line string, n int) ([]string, error) {
	out := strings.Split(line, "\t")
	if len(out) != n {
		return nil, fmt.Errorf("line %q of ZFS has %d fields, want %d", line, len(out), n)
	}
	return out, nil
}
