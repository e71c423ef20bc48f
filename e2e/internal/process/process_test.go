package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func stat(name string, state string, start string) string {
	fields := []string{state}
	for range 18 {
		fields = append(fields, "0")
	}
	return "42 (" + name + ") " + strings.Join(append(fields, start, "0", "0"), " ")
}

func TestStartTimeIsReadWhateverTheNameIs(t *testing.T) {
	for _, name := range []string{"qemu", "a b", "x) S 1 2 3", "((("} {
		got, err := startTime(stat(name, "S", "777"))
		if err != nil || got != 777 {
			t.Errorf("name %q: got %d, %v; want 777", name, got, err)
		}
	}
	for _, text := range []string{"", "42 (x", "42 (x) S 1"} {
		if _, err := startTime(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

// fake is a proc file system with process 42.
func fake(t *testing.T, state, start, boot string) Table {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{"42/stat": stat("x", state, start), "sys/kernel/random/boot_id": boot + "\n"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return NewTable(root)
}

func TestOnlyTheSameProcessIsRunning(t *testing.T) {
	id := Identity{PID: 42, Start: 100, Boot: "b1"}
	tests := map[string]struct {
		table Table
		want  bool
	}{
		"the same":                       {fake(t, "S", "100", "b1"), true},
		"the pid is another's now":       {fake(t, "S", "101", "b1"), false},
		"the machine was booted again":   {fake(t, "S", "100", "b2"), false},
		"it has ended, but nobody knows": {fake(t, "Z", "100", "b1"), false},
		"there is none":                  {NewTable(t.TempDir()), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.table.Running(id); got != test.want {
				t.Errorf("running: %t, want %t", got, test.want)
			}
		})
	}
}

func TestStopEndsAProcessThatIgnoresTheSignal(t *testing.T) {
	table := NewTable("/proc")
	log := filepath.Join(t.TempDir(), "log")
	id, err := table.Start(log, nil, "sh", "-c", `trap "" TERM; echo started; while :; do sleep 1; done`)
	if err != nil {
		t.Fatal(err)
	}
	if !table.Running(id) {
		t.Fatal("it does not run")
	}
	if err := table.Stop(t.Context(), id, 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if table.Running(id) {
		t.Error("it still runs")
	}
	if err := table.Stop(t.Context(), id, time.Second); err != nil {
		t.Errorf("stopping it again: %v", err)
	}
}

func TestStopLeavesAnotherProcessAlone(t *testing.T) {
	table := NewTable("/proc")
	self, err := table.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	self.Start++
	if err := table.Stop(t.Context(), self, 0); err != nil {
		t.Error(err)
	}
}
