package command_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/distort-io/distort/modules/agent/internal/command"
)

func TestRunReturnsWhatTheProgramPrinted(t *testing.T) {
	res, err := command.NewExec().Run(t.Context(), command.New("cat").WithStdin("label: gpt\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(res.Stdout); got != "label: gpt\n" {
		t.Errorf("stdout = %q", got)
	}
}

func TestRunHasAFixedEnvironment(t *testing.T) {
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	t.Setenv("LIBBLKID_DEBUG", "all")
	res, err := command.NewExec().Run(t.Context(), command.New("env"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(res.Stdout); !strings.Contains(got, "LC_ALL=C\n") || strings.Contains(got, "LIBBLKID_DEBUG") {
		t.Errorf("environment = %q", got)
	}
}

func TestRunTellsExitCodesFromFailuresToStart(t *testing.T) {
	run := command.NewExec()
	_, err := run.Run(t.Context(), command.New("ls", "--", "/nonexistent-operand"))
	if code, ok := command.ExitCode(err); !ok || code != 2 {
		t.Errorf("code = %d, %v; want 2", code, ok)
	}
	var exit *command.ExitError
	if !errors.As(err, &exit) || !strings.Contains(exit.Stderr, "/nonexistent-operand") {
		t.Errorf("error does not name the operand: %v", err)
	}
	_, err = run.Run(t.Context(), command.New("no-such-program-here"))
	if _, ok := command.ExitCode(err); err == nil || ok {
		t.Errorf("missing program gave %v", err)
	}
}

func TestRunBoundsOutput(t *testing.T) {
	_, err := command.NewExec().Run(t.Context(), command.New("head", "-c", "5000000", "/dev/zero"))
	if err == nil || !strings.Contains(err.Error(), "bytes of output") {
		t.Errorf("error = %v", err)
	}
}

// timeout(1) starts a child of its own: the end of the context must reach both.
func TestContextEndKillsTheWholeGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		// --foreground keeps the child of timeout(1) in its process group.
		_, err := command.NewExec().Run(ctx, command.New("timeout", "--foreground", "600", "sleep", "600"))
		done <- err
	}()
	child := waitForGrandchild(t)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("error = %v, want context.Canceled", err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for syscall.Kill(child, 0) == nil && !zombie(child) {
		if time.Now().After(deadline) {
			t.Fatalf("grandchild %d still runs", child)
		}
	}
}

// waitForGrandchild finds "sleep 600" whose parent is a child of this process.
func waitForGrandchild(t *testing.T) int {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		for _, child := range children(os.Getpid()) {
			for _, grand := range children(child) {
				if b, _ := os.ReadFile("/proc/" + strconv.Itoa(grand) + "/cmdline"); string(b) == "sleep\x00600\x00" {
					return grand
				}
			}
		}
	}
	t.Fatal("the program's child did not start")
	return 0
}

func children(pid int) []int {
	var out []int
	tasks, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	for _, task := range tasks {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + task.Name() + "/children")
		for _, f := range strings.Fields(string(b)) {
			n, _ := strconv.Atoi(f)
			out = append(out, n)
		}
	}
	return out
}

func zombie(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(rest, "Z")
}
