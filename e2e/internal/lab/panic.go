package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/distort-io/distort/e2e/internal/layout"
)

// ErrPanicked: the kernel of a guest has died.
var ErrPanicked = errors.New("the kernel of a guest has panicked")

// panicked is on the console then (kernel/panic.c).
const panicked = "Kernel panic - not syncing"

// Panicked returns ErrPanicked for each guest whose console says so, and keeps that
// console among the logs.
func (l *Lab) Panicked() error {
	var found []error
	for _, node := range layout.Nodes() {
		console, err := os.ReadFile(l.Console(node.Name))
		if err != nil || !bytes.Contains(console, []byte(panicked)) {
			continue
		}
		kept := filepath.Join(l.LogDir(), node.Name+"-panic.log")
		found = append(found, fmt.Errorf("%w: %s (console: %s)", ErrPanicked, node.Name, kept), os.WriteFile(kept, console, 0o644))
	}
	return errors.Join(found...)
}
