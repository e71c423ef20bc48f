// Package teardown tests that a lab leaves nothing behind, however it ends. It starts
// labs of its own, bare and in other directories, which do not disturb the one that
// runs: each has its network namespace. They are ended while they boot, so they cost
// little.
package teardown

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/distort-io/distort/e2e/internal/lab"
	"github.com/distort-io/distort/e2e/internal/repo"
	"github.com/distort-io/distort/e2e/internal/suite"
)

const (
	// booting is what `lab up` says when its control plane is up; its guests boot.
	booting = "control plane is healthy"
	// cleaned starts what it says when it has ended what an earlier lab left.
	cleaned = "stopped "
	// patience bounds each start up to there, and each end.
	patience = 10 * time.Minute
)

// TestInterruptLeavesNothing presses Ctrl-C while the lab starts.
func TestInterruptLeavesNothing(t *testing.T) {
	l := newLab(t)
	up := l.start()
	up.waitFor(booting)
	if len(l.processes()) < 3 || l.namespaces() == 0 {
		t.Fatalf("only %v run, in %d namespaces: nothing to clean up", l.processes(), l.namespaces())
	}
	up.interrupt()
	l.wantNothing()
}

// TestStartAfterACrashCleansUpFirst kills the program that starts the lab, which so
// cannot end what it started. The next start does.
func TestStartAfterACrashCleansUpFirst(t *testing.T) {
	l := newLab(t)
	first := l.start()
	first.waitFor(booting)
	suite.Must(t, first.cmd.Process.Kill())
	_ = first.wait() // it was killed
	left := l.processes()
	if len(left) == 0 {
		t.Fatal("nothing has survived its starter: there is nothing to clean up")
	}
	second := l.start()
	second.waitFor(cleaned)
	second.waitFor(booting)
	for _, pid := range l.processes() {
		if slices.Contains(left, pid) {
			t.Errorf("process %d of the first lab still runs", pid)
		}
	}
	if n := l.namespaces(); n != 1 {
		t.Errorf("%d network namespaces, want that of the second lab", n)
	}
	second.interrupt()
	l.wantNothing()
}

// labDir is a lab in a directory of its own, started by a program of its own.
type labDir struct {
	t            *testing.T
	program, dir string
	before       []string // network namespaces
}

func newLab(t *testing.T) *labDir {
	t.Helper()
	suite.Open(t) // it has prepared everything, and skips elsewhere
	root, err := repo.Root()
	suite.Must(t, err)
	l := &labDir{t: t, program: filepath.Join(t.TempDir(), "lab"), before: namespaces(t)}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", l.program, "./cmd/lab")
	cmd.Dir = filepath.Join(root, "e2e")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the lab: %v\n%s", err, out)
	}
	// The path of a socket is bounded, and that of t.TempDir is long.
	l.dir, err = os.MkdirTemp("", "lab")
	suite.Must(t, err)
	t.Cleanup(func() {
		// Whatever a failed test left.
		down := l.command("down")
		if out, err := down.CombinedOutput(); err != nil {
			t.Errorf("lab down: %v\n%s", err, out)
		}
		suite.Must(t, os.RemoveAll(l.dir))
	})
	return l
}

func (l *labDir) command(args ...string) *exec.Cmd {
	cmd := exec.Command(l.program, args...)
	cmd.Env = append(os.Environ(), lab.EnvDir+"="+l.dir)
	return cmd
}

// upCommand is a running `lab up --bare`.
type upCommand struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // what it says; closed when it has ended
	said  []string
}

func (l *labDir) start() *upCommand {
	l.t.Helper()
	up := &upCommand{t: l.t, cmd: l.command("up", "--bare"), lines: make(chan string)}
	// A group of its own, as in a shell: Ctrl-C goes to all of it.
	up.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, write, err := os.Pipe()
	suite.Must(l.t, err)
	up.cmd.Stdout, up.cmd.Stderr = write, write
	suite.Must(l.t, up.cmd.Start())
	suite.Must(l.t, write.Close())
	l.t.Cleanup(func() {
		if up.cmd.ProcessState == nil { // a failed test has left it
			up.interrupt()
		}
	})
	go func() {
		defer close(up.lines)
		defer out.Close()
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			up.lines <- scanner.Text()
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	return up
}

// waitFor waits until the command says so.
func (up *upCommand) waitFor(text string) {
	up.t.Helper()
	expired := time.After(patience)
	for {
		select {
		case line, more := <-up.lines:
			up.said = append(up.said, line)
			if strings.Contains(line, text) {
				return
			}
			if !more {
				up.t.Fatalf("lab up ended and did not say %q:\n%s", text, strings.Join(up.said, "\n"))
			}
		case <-expired:
			up.t.Fatalf("lab up has not said %q in %s:\n%s", text, patience, strings.Join(up.said, "\n"))
		}
	}
}

// interrupt is Ctrl-C; the command must say that it did not succeed.
func (up *upCommand) interrupt() {
	up.t.Helper()
	suite.Must(up.t, syscall.Kill(-up.cmd.Process.Pid, syscall.SIGINT))
	if err := up.wait(); err == nil {
		up.t.Error("lab up was interrupted and exits with 0")
	}
}

// wait waits until the command has ended, and returns how. What it started may hold its
// output open longer.
func (up *upCommand) wait() error {
	up.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- up.cmd.Wait() }()
	expired := time.After(patience)
	for {
		select {
		case line, more := <-up.lines:
			if !more {
				up.lines = nil
			}
			up.said = append(up.said, line)
		case err := <-ended:
			return err
		case <-expired:
			up.t.Fatalf("lab up has not ended in %s:\n%s", patience, strings.Join(up.said, "\n"))
		}
	}
}

// wantNothing: no process, no network namespace, and so no bridge and no tap, no
// mount, no file but the logs.
func (l *labDir) wantNothing() {
	l.t.Helper()
	if pids := l.processes(); len(pids) > 0 {
		l.t.Errorf("processes %v still run", pids)
	}
	if n := l.namespaces(); n > 0 {
		l.t.Errorf("%d network namespaces are left", n)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	suite.Must(l.t, err)
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, l.dir) {
			l.t.Errorf("still mounted: %s", line)
		}
	}
	entries, err := os.ReadDir(l.dir)
	suite.Must(l.t, err)
	for _, e := range entries {
		if e.Name() != "logs" && e.Name() != ".lock" {
			l.t.Errorf("%s is left in the lab's directory", e.Name())
		}
	}
}

// processes are those that have the lab's directory in their command lines or in their
// environments, as all that a lab starts.
func (l *labDir) processes() []int {
	l.t.Helper()
	entries, err := os.ReadDir("/proc")
	suite.Must(l.t, err)
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		for _, file := range []string{"cmdline", "environ"} {
			content, err := os.ReadFile(filepath.Join("/proc", e.Name(), file))
			// A process may end meanwhile, and one that root may not look into is of another
			// container.
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, fs.ErrPermission) {
				l.t.Fatal(err)
			}
			if bytes.Contains(content, []byte(l.dir)) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// namespaces counts the network namespaces that there were not before.
func (l *labDir) namespaces() int {
	l.t.Helper()
	return len(slices.DeleteFunc(namespaces(l.t), func(name string) bool { return slices.Contains(l.before, name) }))
}

func namespaces(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/run/netns")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
