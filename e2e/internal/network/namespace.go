// Package network gives the lab a network of its own: a network namespace with
// a bridge, a tap device for each guest, and the control plane. Nothing of the
// host's own network changes, so a packet filter there does not matter.
package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Namespace is a named network namespace, as iproute2 makes them.
type Namespace struct {
	name string
	// runDir holds the names, procDir the processes.
	runDir, procDir string
}

// NewNamespace returns the namespace with that name, which need not exist.
func NewNamespace(name string) Namespace {
	return Namespace{name: name, runDir: "/run/netns", procDir: "/proc"}
}

// Name returns its name.
func (n Namespace) Name() string { return n.name }

func (n Namespace) path() string { return filepath.Join(n.runDir, n.name) }

// Exists says whether there is a namespace of that name.
func (n Namespace) Exists() bool {
	_, err := os.Stat(n.path())
	return err == nil
}

// Do runs do on a thread that is in the namespace. What do starts, processes
// and sockets, belongs to the namespace; other goroutines do not.
func (n Namespace) Do(do func() error) error {
	result := make(chan error, 1)
	go func() {
		// The thread is never unlocked, so the runtime ends it with this
		// goroutine and no other goroutine meets the foreign namespace.
		runtime.LockOSThread()
		result <- n.enterAnd(do)
	}()
	return <-result
}

func (n Namespace) enterAnd(do func() error) error {
	file, err := os.Open(n.path())
	if err != nil {
		return fmt.Errorf("enter network namespace %s: %w", n.name, err)
	}
	err = unix.Setns(int(file.Fd()), unix.CLONE_NEWNET)
	file.Close()
	if err != nil {
		return fmt.Errorf("enter network namespace %s: %w", n.name, err)
	}
	return do()
}

// Dial connects to a literal address inside the namespace.
func (n Namespace) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := n.Do(func() (err error) {
		var dialer net.Dialer
		conn, err = dialer.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Processes returns the pids of all processes in the namespace. They are the
// lab's, however it was left: nothing else enters it.
func (n Namespace) Processes() ([]int, error) {
	var want unix.Stat_t
	if err := unix.Stat(n.path(), &want); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil, nil
		}
		return nil, fmt.Errorf("network namespace %s: %w", n.name, err)
	}
	entries, err := os.ReadDir(n.procDir)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		var got unix.Stat_t
		// A process may end while it is looked at.
		if err := unix.Stat(filepath.Join(n.procDir, entry.Name(), "ns", "net"), &got); err != nil {
			continue
		}
		if got.Ino == want.Ino && got.Dev == want.Dev && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
