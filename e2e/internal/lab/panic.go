package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/distort-io/distort/e2e/internal/layout"
)

var (
	// ErrPanicked: the kernel of a guest has died of what it was made to do.
	ErrPanicked = errors.New("the kernel of a guest has panicked")
	// ErrDoubleFault: the kernel of a guest has died of a fault of its CPU, which is
	// emulated.
	ErrDoubleFault = errors.New("the emulated CPU of a guest has faulted twice")
)

// What is on the console then (kernel/panic.c, arch/x86/kernel/traps.c).
const (
	panicked    = "Kernel panic - not syncing"
	doubleFault = "PANIC: double fault"
)

// Panicked returns ErrPanicked or ErrDoubleFault for each guest whose console says so,
// and keeps that console among the logs.
func (l *Lab) Panicked() error {
	var found []error
	for _, node := range layout.Nodes() {
		console, err := os.ReadFile(l.Console(node.Name))
		if err != nil || !bytes.Contains(console, []byte(panicked)) {
			continue
		}
		why := ErrPanicked
		if bytes.Contains(console, []byte(doubleFault)) {
			why = ErrDoubleFault
		}
		kept := filepath.Join(l.LogDir(), node.Name+"-panic.log")
		found = append(found, fmt.Errorf("%w: %s (console: %s)", why, node.Name, kept), os.WriteFile(kept, console, 0o644))
	}
	return errors.Join(found...)
}
