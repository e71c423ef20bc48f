package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/distort-io/distort/e2e/internal/cache"
	"github.com/distort-io/distort/e2e/internal/command"
	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/guestspec"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/network"
	"github.com/distort-io/distort/e2e/internal/process"
)

// EnvDir is the environment variable with the lab's directory. Labs in
// different directories do not disturb each other.
const EnvDir = "DISTORT_LAB_DIR"

// Lab is one lab, running or not.
type Lab struct {
	dir       string
	namespace network.Namespace
	table     process.Table
	run       command.Runner
	out       io.Writer
}

// Dir returns the lab's directory: $DISTORT_LAB_DIR or "lab" in the cache.
func Dir() (string, error) {
	if dir := os.Getenv(EnvDir); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := cache.Dir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "lab"), nil
}

// New returns the lab in a directory; what it does is told to out.
func New(dir string, out io.Writer) *Lab {
	sum := sha256.Sum256([]byte(dir))
	return &Lab{
		dir:       dir,
		namespace: network.NewNamespace("distort-lab-" + hex.EncodeToString(sum[:4])),
		table:     process.NewTable("/proc"),
		out:       out,
	}
}

// Dir returns the lab's directory.
func (l *Lab) Dir() string { return l.dir }

// Kubeconfig returns the path of the administrator's kubeconfig, which works
// from the host's own network.
func (l *Lab) Kubeconfig() string { return filepath.Join(l.dir, "kubeconfig") }

// LogDir returns the directory of the control plane's and emulators' output.
func (l *Lab) LogDir() string { return filepath.Join(l.dir, "logs") }

// credentialsDir holds keys, certificates and kubeconfigs of the control plane.
func (l *Lab) credentialsDir() string { return filepath.Join(l.dir, "pki") }

// guestDir holds the files of one guest.
func (l *Lab) guestDir(name string) string { return filepath.Join(l.dir, "guests", name) }

// Console returns the file with a guest's console output.
func (l *Lab) Console(name string) string { return filepath.Join(l.guestDir(name), "console.log") }

// Guest returns a client that runs commands in a guest.
func (l *Lab) Guest(name string) (*guestexec.Client, error) {
	node, err := layout.Find(name)
	if err != nil {
		return nil, err
	}
	return guestexec.NewClient(name, func(ctx context.Context) (net.Conn, error) {
		return l.namespace.Dial(ctx, "tcp", fmt.Sprintf("%s:%d", node.Address(), guestspec.ExecPort))
	}), nil
}

// Reserve keeps other commands from starting, changing or stopping the lab
// until release is called, or this process ends.
func (l *Lab) Reserve() (release func(), err error) {
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return nil, fmt.Errorf("lab directory: %w", err)
	}
	path := filepath.Join(l.dir, ".lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lab directory: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("another command uses the lab in %s (%s moves this one elsewhere): %w", l.dir, EnvDir, err)
	}
	return func() { file.Close() }, nil
}

// clock tells what happens with the time since its start.
type clock struct {
	out   io.Writer
	begin time.Time
}

func newClock(out io.Writer) *clock { return &clock{out: out, begin: time.Now()} }

func (c *clock) say(format string, args ...any) {
	fmt.Fprintf(c.out, "lab %8.1fs  %s\n", time.Since(c.begin).Seconds(), fmt.Sprintf(format, args...))
}
