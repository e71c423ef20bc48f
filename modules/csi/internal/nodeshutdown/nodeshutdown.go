// Package nodeshutdown tells, when the driver is asked to end, whether the
// whole node goes down or only the driver's pod does, as in an upgrade.
//
// A process in a container is not told. Two things know, one of which is there
// however a node is shut down (docs/decisions, "fail-fast-on-node-shutdown"):
// the file that keeps users from logging in to a host that goes down, and the
// condition that kubelet sets before it ends pods for a graceful shutdown.
package nodeshutdown

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// queryTimeout bounds the question to the API server, which may be unreachable
// by now.
const queryTimeout = 3 * time.Second

// kubeletSays is in the message of the Ready condition during a graceful
// shutdown (Kubernetes, pkg/kubelet/nodeshutdown).
const kubeletSays = "node is shutting down"

// Detector looks for signs that the node goes down.
type Detector struct {
	// Marker is a file that exists while the host goes down; empty is none.
	Marker string
	// Patience is how long the marker may come after the request to end: systemd
	// ends containers and makes the file at the same time.
	Patience time.Duration
	// Node reads the Node object.
	Node func(ctx context.Context) (*corev1.Node, error)
}

// GoingDown returns the sign that the node goes down, or false when none was
// seen in time. The errors are those of looking, for the log; a sign needs none
// of them to have gone well.
func (d Detector) GoingDown(ctx context.Context) (sign string, down bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		sign string
		err  error
	}
	answers := make(chan answer, 2)
	for _, look := range []func(context.Context) (string, error){d.marker, d.condition} {
		go func() {
			sign, err := look(ctx)
			answers <- answer{sign, err}
		}()
	}
	var failures []error
	for range cap(answers) {
		a := <-answers
		if a.sign != "" {
			return a.sign, true, nil
		}
		failures = append(failures, a.err)
	}
	return "", false, errors.Join(failures...)
}

func (d Detector) condition(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	n, err := d.Node(ctx)
	if err != nil {
		return "", fmt.Errorf("read the Node: %w", err)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue && strings.Contains(c.Message, kubeletSays) {
			return "condition Ready of the Node: " + c.Message, nil
		}
	}
	return "", nil
}

// marker waits for the file.
func (d Detector) marker(ctx context.Context) (string, error) {
	if d.Marker == "" {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.Patience)
	defer cancel()
	changes, err := watch(filepath.Dir(d.Marker))
	if err != nil {
		return "", fmt.Errorf("watch for %s: %w", d.Marker, err)
	}
	defer changes.Close()
	stop := context.AfterFunc(ctx, func() { _ = changes.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	events := make([]byte, 4096)
	for {
		if _, err := os.Lstat(d.Marker); err == nil {
			return "file " + d.Marker, nil
		}
		if _, err := changes.Read(events); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = nil
			}
			return "", err
		}
	}
}

// watch returns what can be read whenever something appears in the directory.
func watch(dir string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO); err != nil {
		return nil, errors.Join(&os.PathError{Op: "watch", Path: dir, Err: err}, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "inotify"), nil
}
