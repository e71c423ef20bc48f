package fenceio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestATornBlockIsNoRecord(t *testing.T) {
	block, other := make([]byte, BlockSize), make([]byte, BlockSize)
	NewRecord("a", 1, 7).encode(block)
	NewRecord("b", 1, 7).encode(other)
	if r, err := decode(block); err != nil || r != NewRecord("a", 1, 7) || r.Writer() != "a" {
		t.Errorf("got %q, %v", r, err)
	}
	copy(block[512:], other[512:])
	if r, err := decode(block); err == nil {
		t.Errorf("a block of two writers reads as %q", r)
	}
	if r, err := decode(make([]byte, BlockSize)); err != nil || r != "" {
		t.Errorf("blank block: %q, %v", r, err)
	}
}

// medium is a file in the place of a device, if its file system can do direct I/O.
func medium(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "medium")
	if err := os.WriteFile(path, make([]byte, Slots*BlockSize), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err != nil {
		t.Skipf("no direct I/O in %s: %v", t.TempDir(), err)
	}
	return path
}

func during(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestOwnerFindsWhatItDidNotWrite(t *testing.T) {
	path := medium(t)
	Write(during(t, 50*time.Millisecond), at(path), "a")
	before, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if before[0].Writer() != "a" {
		t.Fatalf("slot 0 has %q", before[0])
	}
	if n, err := Own(during(t, 50*time.Millisecond), path, "b", before); err != nil || n == 0 {
		t.Fatalf("alone: %d written, %v", n, err)
	}
	if _, err := Own(during(t, 50*time.Millisecond), path, "b", before); !errors.Is(err, ErrForeignWrite) {
		t.Errorf("what it wrote before it began is foreign: %v", err)
	}
	now, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	intruder, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); Write(intruder, at(path), "a") }()
	if _, err := Own(during(t, time.Minute), path, "b", now); !errors.Is(err, ErrForeignWrite) || !strings.Contains(err.Error(), "writer=a") {
		t.Errorf("with an intruder: %v", err)
	}
	stop()
	<-done
}

func TestOwnerWritesUntilItsInputEnds(t *testing.T) {
	path := medium(t)
	in, records := io.Pipe()
	var out, errOut bytes.Buffer
	code := make(chan int, 1)
	go func() { code <- Main(t.Context(), []string{"own", path, "b", "1h"}, in, &out, &errOut) }()
	if err := json.NewEncoder(records).Encode(make([]Record, Slots)); err != nil {
		t.Fatal(err)
	}
	records.Close()
	if got := <-code; got != 0 {
		t.Fatalf("exit code %d: %s", got, errOut.String())
	}
	if n, err := strconv.Atoi(strings.TrimSpace(out.String())); err != nil || n < Slots {
		t.Errorf("printed %q, want at least %d", out.String(), Slots)
	}
}

func TestFindGoesByTheSubsystemsName(t *testing.T) {
	sys := t.TempDir()
	for name, text := range map[string]string{
		"class/nvme-subsystem/nvme-subsys3/subsysnqn":      "nqn.x\n",
		"class/nvme-subsystem/nvme-subsys3/nvme5/size":     "9\n",
		"class/nvme-subsystem/nvme-subsys3/nvme3n2/size":   "8\n",
		"class/nvme-subsystem/nvme-subsys4/subsysnqn":      "nqn.y\n",
		"class/nvme-subsystem/nvme-subsys4/nvme4n1/size":   "0\n",
		"class/nvme-subsystem/nvme-subsys4/nvme4c4n1/size": "8\n",
	} {
		path := filepath.Join(sys, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for nqn, want := range map[string]string{"nqn.x": "/dev/nvme3n2", "nqn.y": "", "nqn.z": ""} {
		if got := find(sys, nqn); got != want {
			t.Errorf("%s: %q, want %q", nqn, got, want)
		}
	}
}

// at is a device that is always there.
func at(path string) func() string { return func() string { return path } }

// A name that another volume has by now is not the volume's.
func TestADeviceIsItsVolumesAndNotAName(t *testing.T) {
	old, theirs := medium(t), medium(t)
	looks := 0
	for name, locate := range map[string]func() string{
		"there is none": at(""),
		"it goes while it is opened": func() string {
			looks++
			return []string{old, theirs}[min(looks, 2)-1]
		},
	} {
		if d, err := openLocated(locate); !errors.Is(err, errNoDevice) {
			t.Errorf("%s: opened %v, %v", name, d, err)
		}
	}
	d, err := openLocated(at(old))
	if err != nil {
		t.Fatal(err)
	}
	d.close()
}
