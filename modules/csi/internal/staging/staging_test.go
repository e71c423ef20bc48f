package staging_test

import (
	"errors"
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
	}
}

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
	if diff := cmp.Diff(want, got); err != nil || !found || diff != "" {
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
		"cut off":           func(s string) string { return s[:len(s)/2] },
		"empty":             func(string) string { return "" },
		"of another volume": func(s string) string { return strings.ReplaceAll(s, "partition:ns", "partition:other") }, // SE8
		"of the future":     func(s string) string { return strings.ReplaceAll(s, `"version":1`, `"version":2`) },
		"unknown state":     func(s string) string { return strings.ReplaceAll(s, `"staging"`, `"dancing"`) },
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
