package lab

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/e2e/internal/process"
)

func TestOneCommandAtATimeUsesALab(t *testing.T) {
	l := New(t.TempDir(), io.Discard)
	release, err := l.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Reserve(); err == nil {
		t.Error("a second command may use it too")
	}
	release()
	release, err = l.Reserve()
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	release()
}

func TestStateIsReadBack(t *testing.T) {
	l := New(t.TempDir(), io.Discard)
	if _, err := l.State(); !errors.Is(err, ErrNotUp) {
		t.Errorf("no record: got %v, want ErrNotUp", err)
	}
	rec := &record{path: filepath.Join(l.Dir(), stateFile), state: State{
		Created: time.Unix(1700000000, 0).UTC(), Artifacts: map[string]string{"a": "/x"}, Processes: map[string]process.Identity{},
	}}
	if err := rec.started("etcd", process.Identity{PID: 7, Start: 8, Boot: "b"}); err != nil {
		t.Fatal(err)
	}
	got, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rec.state, got); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func TestCleaningKeepsOnlyLogs(t *testing.T) {
	l := New(t.TempDir(), io.Discard)
	for _, name := range []string{"logs/etcd.log", "guests/storage/root.qcow2", "kubeconfig", stateFile} {
		path := filepath.Join(l.Dir(), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.removeFiles(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(l.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != "logs" {
		t.Errorf("left %v, want the logs", entries)
	}
}

func TestLabsInTwoDirectoriesHaveTwoNetworks(t *testing.T) {
	if one, two := New("/a", io.Discard), New("/b", io.Discard); one.namespace.Name() == two.namespace.Name() {
		t.Errorf("both have %s", one.namespace.Name())
	}
}
