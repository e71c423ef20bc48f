package formatonce_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/distort-io/distort/modules/csi/internal/blockdev"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/filesystem/filesystemtest"
	"github.com/distort-io/distort/modules/csi/internal/formatonce"
	"github.com/distort-io/distort/modules/csi/internal/formatonce/formatoncetest"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const (
	disk  = "/dev/nvme7n1"
	uuid  = "aaaaaaaa-0000-4000-8000-00000000000a"
	other = "bbbbbbbb-0000-4000-8000-00000000000b"
)

var (
	ref  = formatonce.AttachmentRef{Namespace: "distort-system", Name: "att-1", UID: "u"}
	noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

	started  = formatonce.Record{Type: filesystem.Ext4, UUID: uuid, StartedAt: noon}
	finished = formatonce.Record{Type: filesystem.Ext4, UUID: uuid, StartedAt: noon, FormattedAt: noon}
)

type world struct {
	host      *filesystemtest.Host
	recorder  *formatoncetest.Recorder
	formatter *formatonce.Formatter
}

func newWorld(medium filesystemtest.Medium, record formatonce.Record) world {
	host := filesystemtest.New(func(path string) (filesystemtest.Device, bool) {
		return filesystemtest.Device{Medium: "m", Number: blockdev.Number{Major: 259, Minor: 7}, Size: 64 << 20}, path == disk
	})
	host.Change("m", func(m *filesystemtest.Medium) { *m = medium })
	recorder := &formatoncetest.Recorder{}
	if record != (formatonce.Record{}) {
		recorder.Put(ref, record)
	}
	return world{host, recorder, formatonce.New(filesystem.New(host.Options()), recorder, func() time.Time { return noon })}
}

func request() formatonce.Request {
	return formatonce.Request{Device: disk, Type: filesystem.Ext4, UUID: uuid, Attachment: ref}
}

// ST16: the whole table of record × device.
func TestEnsure(t *testing.T) {
	ours := filesystemtest.Medium{Type: "ext4", UUID: uuid}
	foreign := filesystemtest.Medium{Type: "xfs", UUID: other}
	junk := filesystemtest.Medium{Data: map[int64]byte{5: 1}}
	unreadable := filesystemtest.Medium{Type: "ext4", UUID: uuid, ReadError: unix.EIO}
	for name, test := range map[string]struct {
		medium  filesystemtest.Medium
		record  formatonce.Record
		change  func(*formatonce.Request)
		formats int
		err     error
		says    []string
	}{
		"no record, blank: formatted":                   {formats: 1},
		"no record, our own filesystem: refused":        {medium: ours, err: formatonce.ErrRefused, says: []string{"TYPE=ext4", uuid}},
		"no record, foreign filesystem: refused":        {medium: foreign, err: formatonce.ErrRefused, says: []string{"TYPE=xfs", other}},
		"no record, unknown data: refused":              {medium: junk, err: formatonce.ErrRefused, says: []string{"data at byte 5"}},
		"no record, unreadable: refused":                {medium: unreadable, err: unix.EIO},
		"no record, mounted: refused":                   {change: func(r *formatonce.Request) { r.NeverFormat = "it is mounted" }, err: formatonce.ErrRefused},
		"started, blank: formatted again":               {record: started, formats: 1},
		"started, finished by mkfs: formatted again":    {record: started, medium: ours, formats: 1},
		"started, half written: formatted again":        {record: started, medium: junk, formats: 1},
		"started, foreign filesystem: refused":          {record: started, medium: foreign, err: formatonce.ErrRefused, says: []string{"TYPE=xfs"}},
		"started, unreadable: refused":                  {record: started, medium: unreadable, err: unix.EIO},
		"started, mounted: refused":                     {record: started, medium: ours, change: func(r *formatonce.Request) { r.NeverFormat = "it is mounted" }, err: formatonce.ErrRefused},
		"started with another UUID: refused":            {record: formatonce.Record{Type: filesystem.Ext4, UUID: other, StartedAt: noon}, err: formatonce.ErrRefused, says: []string{uuid, other}},
		"finished, there: used":                         {record: finished, medium: ours},
		"finished, there and mounted: used":             {record: finished, medium: ours, change: func(r *formatonce.Request) { r.NeverFormat = "it is mounted" }},
		"finished, type not asked for: recorded one":    {record: finished, medium: ours, change: func(r *formatonce.Request) { r.Type = "" }},
		"finished, blank device: refused":               {record: finished, err: formatonce.ErrRefused, says: []string{"ext4 " + uuid, "holds nothing"}},
		"finished, another filesystem: refused":         {record: finished, medium: foreign, err: formatonce.ErrRefused, says: []string{"ext4 " + uuid, "TYPE=xfs", other}},
		"finished, same type, other UUID: refused":      {record: finished, medium: filesystemtest.Medium{Type: "ext4", UUID: other}, err: formatonce.ErrRefused, says: []string{uuid, other}},
		"finished, unreadable: refused":                 {record: finished, medium: unreadable, err: formatonce.ErrRefused},
		"finished as ext4, asked for xfs: refused":      {record: finished, medium: ours, change: func(r *formatonce.Request) { r.Type = filesystem.XFS }, err: formatonce.ErrRefused, says: []string{"xfs", "ext4"}},
		"record of an unknown type: refused":            {record: formatonce.Record{Type: "btrfs", UUID: uuid, FormattedAt: noon}, err: formatonce.ErrRefused, says: []string{"btrfs"}},
		"stale unfinished context, finished in the API": {record: finished, medium: ours, change: func(r *formatonce.Request) { r.Recorded = started }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(test.medium, test.record)
			r := request()
			if test.change != nil {
				test.change(&r)
			}
			got, err := w.formatter.Ensure(t.Context(), r)
			if test.record.Finished() && strings.Contains(name, "unreadable") {
				// Found unreadable by blkid or by the read, as it comes; never blank.
				if err == nil {
					t.Fatal("used an unreadable device")
				}
			} else if !errors.Is(err, test.err) {
				t.Fatalf("err = %v, want %v", err, test.err)
			}
			for _, part := range test.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not name %q", err, part)
				}
			}
			if n := w.host.Medium("m").Formats; n != test.formats {
				t.Errorf("%d runs of mkfs, want %d", n, test.formats)
			}
			if err != nil {
				return
			}
			if got != filesystem.Ext4 {
				t.Errorf("type %q", got)
			}
			if diff := cmp.Diff(finished, w.recorder.Get(ref)); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFinishedRecordInTheContextSavesTheRoundTrip(t *testing.T) {
	w := newWorld(filesystemtest.Medium{Type: "ext4", UUID: uuid}, formatonce.Record{})
	r := request()
	r.Recorded = finished
	if _, err := w.formatter.Ensure(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if w.recorder.Loads() != 0 {
		t.Error("asked the API although the publish context had the answer")
	}
}

// A kill before or after every effect: the next call finishes, formats at most
// once more, and never without a record that covers it.
func TestEnsureSurvivesAKillAtEveryEffect(t *testing.T) {
	for _, kill := range []string{"load", "save 1", "save done 1", "mkfs", "mkfs done", "save 2", "save done 2", "blkid 2"} {
		t.Run(kill, func(t *testing.T) {
			killed := errors.New("killed")
			w := newWorld(filesystemtest.Medium{}, formatonce.Record{})
			seen := map[string]int{}
			fault := func(op string) error {
				op = strings.ReplaceAll(op, " "+disk, "")
				seen[op]++
				if kill == op || kill == op+" "+string(rune('0'+seen[op])) {
					return killed
				}
				return nil
			}
			w.recorder.Fault, w.host.Fault = fault, fault
			if _, err := w.formatter.Ensure(t.Context(), request()); !errors.Is(err, killed) {
				t.Fatalf("err = %v, want the kill", err)
			}
			if n := w.host.Medium("m").Formats; n > 0 && !w.recorder.Get(ref).Started() {
				t.Fatal("formatted without a record")
			}
			w.recorder.Fault, w.host.Fault = nil, nil
			for range 2 {
				if _, err := w.formatter.Ensure(t.Context(), request()); err != nil {
					t.Fatal(err)
				}
			}
			if n := w.host.Medium("m").Formats; n > 2 {
				t.Errorf("%d runs of mkfs", n)
			}
			if diff := cmp.Diff(finished, w.recorder.Get(ref)); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnUnreadableRecordRefuses(t *testing.T) {
	w := newWorld(filesystemtest.Medium{}, formatonce.Record{})
	w.recorder.Fault = func(string) error { return errors.New("api server is away") }
	if _, err := w.formatter.Ensure(t.Context(), request()); !errors.Is(err, formatonce.ErrRecord) {
		t.Fatalf("err = %v, want ErrRecord", err)
	}
	if w.host.Medium("m").Formats != 0 {
		t.Error("formatted without knowing the record")
	}
}
