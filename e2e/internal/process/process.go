// Package process starts programs that outlive the lab command, and knows them
// again later without mistaking another process for them.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pollInterval is how often Stop looks whether a process has ended.
const pollInterval = 50 * time.Millisecond

// Identity names one process for all time: pids are used again, pids with the
// same start time within one boot are not.
type Identity struct {
	PID int `json:"pid"`
	// Start is the start time in clock ticks since boot (proc(5), stat field 22).
	Start uint64 `json:"start"`
	// Boot is the kernel's boot id.
	Boot string `json:"boot"`
}

// Table reads processes from a proc file system.
type Table struct{ root string }

// NewTable returns the table below root, usually "/proc".
func NewTable(root string) Table { return Table{root: root} }

// Identify returns the identity of a running process.
func (t Table) Identify(pid int) (Identity, error) {
	stat, err := os.ReadFile(filepath.Join(t.root, strconv.Itoa(pid), "stat"))
	if err != nil {
		return Identity{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	start, err := startTime(string(stat))
	if err != nil {
		return Identity{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	boot, err := os.ReadFile(filepath.Join(t.root, "sys/kernel/random/boot_id"))
	if err != nil {
		return Identity{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return Identity{PID: pid, Start: start, Boot: strings.TrimSpace(string(boot))}, nil
}

// Running says whether that very process still exists and is not a zombie.
func (t Table) Running(id Identity) bool {
	now, err := t.Identify(id.PID)
	return err == nil && now == id && !t.zombie(id.PID)
}

func (t Table) zombie(pid int) bool {
	stat, err := os.ReadFile(filepath.Join(t.root, strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	fields, err := afterName(string(stat))
	return err != nil || fields[0] == "Z"
}

// startTime reads field 22 of a stat line.
func startTime(stat string) (uint64, error) {
	fields, err := afterName(stat)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// afterName returns the fields from the third on: the second, the name in
// parentheses, may itself hold spaces and parentheses.
func afterName(stat string) ([]string, error) {
	end := strings.LastIndex(stat, ")")
	if end < 0 {
		return nil, errors.New("stat line has no process name")
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 20 {
		return nil, fmt.Errorf("stat line has %d fields after the name, want at least 20", len(fields))
	}
	return fields, nil
}

// Start starts a program in a session of its own, with its output appended to
// the log file, and does not wait for it. Keep files are passed on as
// descriptors 3, 4 and so on.
func (t Table) Start(logPath string, keep []*os.File, name string, args ...string) (Identity, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return Identity{}, fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, keep
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return Identity{}, fmt.Errorf("start %s: %w", name, err)
	}
	id, err := t.Identify(cmd.Process.Pid)
	// While this command runs it is the parent, and a parent must reap.
	go func() { _ = cmd.Wait() }()
	return id, err
}

// Stop ends a process: SIGTERM, and SIGKILL after grace. It returns when the
// process is gone; one that was gone before, or whose pid is another's now, is
// left alone.
func (t Table) Stop(ctx context.Context, id Identity, grace time.Duration) error {
	if !t.Running(id) {
		return nil
	}
	if err := syscall.Kill(id.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop process %d: %w", id.PID, err)
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	deadline := time.Now().Add(grace)
	killed := false
	for t.Running(id) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("stop process %d: %w", id.PID, ctx.Err())
		case <-ticker.C:
		}
		if !killed && time.Now().After(deadline) {
			killed = true
			if err := syscall.Kill(id.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill process %d: %w", id.PID, err)
			}
		}
	}
	return nil
}
