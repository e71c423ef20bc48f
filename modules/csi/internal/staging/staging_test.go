package staging_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/staging"
	"github.com/google/go-cmp/cmp"
)

func record() staging.Record {
	return staging.Record{
		VolumeHandle: "partition:ns:name:aaaaaaaa-0000-4000-8000-00000000000a", AttachmentID: "id",
		Identity:    initiator.Identity{NQN: "nqn.2026-02.io.distort:volume-x", NSID: 1, UUID: "u", NGUID: "g"},
		StagingPath: "/var/lib/kubelet/x", Block: true, State: staging.Staging,
		Portals: []initiator.Portal{
			{Transport: initiator.TCP, Address: netip.MustParseAddr("10.0.0.1"), Port: 4420},
			{Transport: initiator.RDMA, Address: netip.MustParseAddr("fd00::1"), Port: 4421},
		},
		Params: initiator.Params{CtrlLossTimeout: number(-1), QueueSize: number(64)},
	}
}

// addresses compares what cmp cannot look into.
var addresses = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func number(n int) *int { return &n }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func only(t *testing.T, dir string) string {
	t.Helper()
	files, err := os.ReadDir(dir)
	must(t, err)
	if len(files) != 1 {
		t.Fatalf("%d files, want 1", len(files))
	}
	return filepath.Join(dir, files[0].Name())
}

func TestRecordSurvivesTheProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "when needed")
	want := record()
	must(t, staging.New(dir).Save(want))
	want.State = staging.Staged
	must(t, staging.New(dir).Save(want))
	got, found, err := staging.New(dir).Load(want.VolumeHandle)
	if diff := cmp.Diff(want, got, addresses); err != nil || !found || diff != "" {
		t.Fatalf("%t, %v (-want +got):\n%s", found, err, diff)
	}
	info, err := os.Stat(only(t, dir))
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode().Perm())
	}
	for range 2 {
		must(t, staging.New(dir).Delete(want.VolumeHandle))
	}
	if _, found, err := staging.New(dir).Load(want.VolumeHandle); found || err != nil {
		t.Errorf("after delete: %t, %v", found, err)
	}
}

// SE1: no handle names a file outside the directory.
func TestHandlesAreNotPaths(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	for _, handle := range []string{"../../../etc/passwd", "/etc/passwd", "", strings.Repeat("x", 4096)} {
		r := record()
		r.VolumeHandle = handle
		must(t, staging.New(dir).Save(r))
		if filepath.Dir(only(t, dir)) != dir {
			t.Errorf("%q left the directory", handle)
		}
		must(t, staging.New(dir).Delete(handle))
	}
}

func TestWhatIsNotARecordIsCorrupt(t *testing.T) {
	for name, change := range map[string]func(string) string{
		"cut off":               func(s string) string { return s[:len(s)/2] },
		"empty":                 func(string) string { return "" },
		"of another volume":     func(s string) string { return strings.ReplaceAll(s, "partition:ns", "partition:other") }, // SE8
		"of the future":         func(s string) string { return strings.ReplaceAll(s, `"version":1`, `"version":2`) },
		"a portal that is none": func(s string) string { return strings.ReplaceAll(s, "tcp://", "http://") },
		"unknown state":         func(s string) string { return strings.ReplaceAll(s, `"staging"`, `"dancing"`) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store := staging.New(dir)
			must(t, store.Save(record()))
			path := only(t, dir)
			text, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, []byte(change(string(text))), 0o600))
			if _, found, err := store.Load(record().VolumeHandle); found || !errors.Is(err, staging.ErrCorrupt) {
				t.Errorf("found %t, %v; want ErrCorrupt", found, err)
			}
			must(t, store.Save(record())) // a new stage mends it
			if _, found, err := store.Load(record().VolumeHandle); !found || err != nil {
				t.Errorf("after a save: %t, %v", found, err)
			}
		})
	}
}

func TestListReturnsWhatCanBeRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	store := staging.New(dir)
	if records, err := store.List(); err != nil || len(records) != 0 {
		t.Errorf("without a directory: %v, %v", records, err)
	}
	for _, handle := range []string{"a", "b", "c"} {
		r := record()
		r.VolumeHandle = handle
		must(t, store.Save(r))
	}
	files, err := os.ReadDir(dir)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, files[0].Name()), []byte("{"), 0o600))
	records, err := store.List()
	if len(records) != 2 || !errors.Is(err, staging.ErrCorrupt) || !strings.Contains(err.Error(), files[0].Name()) {
		t.Errorf("%d records, %v, want 2 and the name of the other", len(records), err)
	}
}

// Version 1 once had no portals; a stage of then is still one.
func TestARecordWithoutPortalsIsRead(t *testing.T) {
	dir := t.TempDir()
	r := record()
	r.Portals, r.Params = nil, initiator.Params{}
	must(t, staging.New(dir).Save(r))
	path := only(t, dir)
	text, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(text), `,"params":{}`, "")), 0o600))
	got, found, err := staging.New(dir).Load(r.VolumeHandle)
	if diff := cmp.Diff(r, got); err != nil || !found || diff != "" {
		t.Errorf("%t, %v (-want +got):\n%s", found, err, diff)
	}
	if !got.SameStage(record()) {
		t.Error("is another stage because of its portals")
	}
}
