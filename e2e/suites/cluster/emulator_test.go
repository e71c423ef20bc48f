package cluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/distort-io/distort/e2e/internal/guest"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/suite"
)

// A guest whose clock is not the host's has kubelet and the API server disagree about
// how long something takes.
func TestTheGuestsClocksRunAsTheHostDoes(t *testing.T) {
	l := suite.Open(t)
	for _, node := range layout.Nodes() {
		host := suite.Guest(t, l, node.Name)
		// The guest is asked between two looks at the host's clock, however long that takes.
		read := func() (guests float64, before, after time.Time) {
			t.Helper()
			before = time.Now()
			out, err := host.Output(t.Context(), "cat", "/proc/uptime")
			after = time.Now()
			suite.Must(t, err)
			guests, err = strconv.ParseFloat(strings.Fields(out)[0], 64)
			suite.Must(t, err)
			return guests, before, after
		}
		from, earliest, latest := read()
		_, err := host.Output(t.Context(), "sleep", "10")
		suite.Must(t, err)
		to, before, after := read()
		slowest := (to - from) / after.Sub(earliest).Seconds()
		fastest := (to - from) / before.Sub(latest).Seconds()
		t.Logf("%s: %.3f to %.3f seconds in one of the host", node.Name, slowest, fastest)
		if slowest > 1.1 || fastest < 0.9 {
			t.Errorf("the clock of %s runs %.3f to %.3f times as fast as the host's", node.Name, slowest, fastest)
		}
	}
}

// A guest whose memory barriers the emulator leaves out loses a doorbell of its
// drives, or a kick of its network, once in a while.
func TestTheEmulatorKeepsTheGuestsBarriers(t *testing.T) {
	suite.Open(t) // the lab has installed the emulator
	dir := t.TempDir()
	rom, log := filepath.Join(dir, "rom"), filepath.Join(dir, "operations")
	// The processor begins 16 bytes below the end: mfence; hlt; jmp to the hlt.
	firmware := make([]byte, 64<<10)
	copy(firmware[len(firmware)-16:], []byte{0x0f, 0xae, 0xf0, 0xf4, 0xeb, 0xfd})
	suite.Must(t, os.WriteFile(rom, firmware, 0o600))
	suite.Must(t, os.WriteFile(log, nil, 0o600))
	program, arguments := guest.Machine{Node: layout.Nodes()[1]}.Emulator()
	cpus := arguments[slices.Index(arguments, "-smp")+1]
	machine := exec.CommandContext(t.Context(), program, "-accel", "tcg", "-machine", "q35", "-smp", cpus, "-m", "64",
		"-nodefaults", "-display", "none", "-bios", rom, "-d", "op", "-D", log)
	suite.Must(t, machine.Start())
	defer func() {
		_ = machine.Process.Kill()
		_ = machine.Wait() // killed
	}()
	var operations string
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		text, err := os.ReadFile(log)
		operations = string(text)
		return strings.Contains(operations, "exit_tb"), err
	})
	if err != nil {
		t.Fatalf("the emulator did not translate the firmware: %v: %q", err, operations)
	}
	if !strings.Contains(operations, "call hlt") || !strings.Contains(operations, "\n mb ") {
		t.Errorf("mfence became no barrier:\n%s", operations)
	}
}
