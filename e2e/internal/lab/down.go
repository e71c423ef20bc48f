package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/distort-io/distort/e2e/internal/process"
)

const (
	// stopGrace is what a process may take to end by itself; kube-apiserver
	// takes several seconds, and nothing of a lab is worth waiting for more.
	stopGrace = 2 * time.Second
	// cleanTimeout bounds the whole clean-up.
	cleanTimeout = time.Minute
)

// kept are the entries of the lab's directory that outlive it: logs, to look at
// afterwards, and the lock that is being held.
var kept = map[string]bool{"logs": true, ".lock": true}

// Down stops the lab and removes everything but its logs. It works on a lab
// that was left in any state. The caller has reserved the lab.
func (l *Lab) Down(ctx context.Context) error {
	return l.clean(ctx, newClock(l.out))
}

// clean ends every process of the lab, then removes its network and files. A
// process is the lab's if it was recorded and still is the same one, or if it
// is in the lab's network namespace.
func (l *Lab) clean(ctx context.Context, clock *clock) error {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	running, err := l.processes()
	if err != nil {
		return err
	}
	results := make(chan error, len(running))
	for _, id := range running {
		go func() { results <- l.table.Stop(ctx, id, stopGrace) }()
	}
	var failures []error
	for range running {
		failures = append(failures, <-results)
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("stop the lab: %w", err)
	}
	hadNetwork := l.namespace.Exists()
	if err := l.namespace.Delete(ctx, l.run); err != nil {
		return fmt.Errorf("stop the lab: %w", err)
	}
	if err := l.removeFiles(); err != nil {
		return fmt.Errorf("stop the lab: %w", err)
	}
	if len(running) > 0 || hadNetwork {
		clock.say("stopped %d processes, removed the network and the lab's disks", len(running))
	}
	return nil
}

// processes returns the lab's running processes.
func (l *Lab) processes() ([]process.Identity, error) {
	found := map[process.Identity]bool{}
	state, err := l.State()
	if err != nil && !errors.Is(err, ErrNotUp) {
		return nil, err
	}
	for _, id := range state.Processes {
		if l.table.Running(id) {
			found[id] = true
		}
	}
	pids, err := l.namespace.Processes()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		// One that ends meanwhile needs no stopping.
		if id, err := l.table.Identify(pid); err == nil && l.table.Running(id) {
			found[id] = true
		}
	}
	list := make([]process.Identity, 0, len(found))
	for id := range found {
		list = append(list, id)
	}
	return list, nil
}

func (l *Lab) removeFiles() error {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if kept[entry.Name()] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(l.dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}
