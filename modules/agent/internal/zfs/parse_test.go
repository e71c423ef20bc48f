package zfs

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/agent/internal/command"
)

func TestParseVdevs(t *testing.T) {
	line := func(name, allocated string) string {
		return "\t" + name + "\t1000\t" + allocated + "\t1000\t-\t-\t1\t0\t-\tONLINE"
	}
	pool := "tank\t1\t1\t1\t-\t-\t1\t0\t1.00\tONLINE\t-"
	for name, c := range map[string]struct {
		lines []string
		want  []vdev
	}{
		"one disk": {[]string{pool, line("/dev/a", "5")}, []vdev{{"/dev/a", []string{"/dev/a"}}}},
		"stripe":   {[]string{pool, line("/dev/a", "5"), line("/dev/b", "5")}, []vdev{{"/dev/a", []string{"/dev/a"}}, {"/dev/b", []string{"/dev/b"}}}},
		"mirror": {[]string{pool, line("mirror-0", "5"), line("/dev/a", "-"), line("/dev/b", "-")},
			[]vdev{{"mirror-0", []string{"/dev/a", "/dev/b"}}}},
		"replacing in a mirror": {[]string{pool, line("mirror-0", "5"), line("/dev/a", "-"), line("replacing-1", "-"), line("/dev/b", "-"), line("/dev/c", "-")},
			[]vdev{{"mirror-0", []string{"/dev/a", "/dev/b", "/dev/c"}}}},
		"mirror beside a disk": {[]string{pool, line("mirror-0", "5"), line("/dev/a", "-"), line("/dev/b", "-"), line("/dev/c", "5")},
			[]vdev{{"mirror-0", []string{"/dev/a", "/dev/b"}}, {"/dev/c", []string{"/dev/c"}}}},
		"with log, cache, special and spare": {[]string{
			pool, line("/dev/a", "5"), line("special", "-"), line("mirror-1", "5"), line("/dev/s", "-"),
			line("logs", "-"), line("/dev/l", "5"), line("cache", "-"), line("/dev/c", "5"), line("spare", "-"), line("/dev/x", "-"),
		}, []vdev{{"/dev/a", []string{"/dev/a"}}, {"mirror-1", []string{"/dev/s"}}}},
	} {
		got, err := parseVdevs(c.lines)
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(vdev{})); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	for _, lines := range [][]string{nil, {pool}, {pool, "\tnothing"}} {
		if got, err := parseVdevs(lines); err == nil {
			t.Errorf("parseVdevs(%q) = %+v", lines, got)
		}
	}
}

// The texts are recorded.
func TestClassify(t *testing.T) {
	for text, want := range map[string]error{
		"cannot open 'sus/v': pool I/O is currently suspended":                                                             ErrSuspended,
		"cannot create 'sus/v2': pool I/O is currently suspended":                                                          ErrSuspended,
		"cannot export 'tank': pool export in progress":                                                                    ErrExporting,
		"cannot create 'solo/x': pool is read-only":                                                                        ErrReadOnly,
		"cannot open 'nopool': no such pool":                                                                               ErrNoPool,
		"cannot import '1234567890123456789': no such pool available":                                                      ErrNoPool,
		"cannot create 'tank/v1': dataset already exists":                                                                  ErrExists,
		"cannot create 'tank/nope/v1': parent does not exist":                                                              ErrNoParent,
		"cannot open 'tank/none': dataset does not exist":                                                                  ErrNotFound,
		"could not find any snapshots to destroy; check snapshot names.":                                                   ErrNotFound,
		"cannot create 'tank/big': out of space":                                                                           ErrNoSpace,
		"cannot set property for 'tank/v1': size is greater than available space":                                          ErrNoSpace,
		"cannot destroy 'tank/v1': dataset is busy":                                                                        ErrBusy,
		"cannot unmount '/mnt/q1': pool or dataset is busy":                                                                ErrBusy,
		"Key unload error: 'tank/e1' is busy.":                                                                             ErrBusy,
		"cannot destroy 'tank/v1': volume has children\nuse '-r' to destroy the following datasets:\ntank/v1@e1":           ErrDependants,
		"cannot destroy 'tank/v1@s1': snapshot has dependent clones\nuse '-R' to destroy the following datasets:\ntank/c1": ErrDependants,
		"cannot destroy snapshot tank/v1@h1: it's being held. Run 'zfs holds -r tank/v1@h1' to see holders.":               ErrHeld,
		"cannot set property for 'tank/e1': permission denied":                                                             ErrKeyMissing,
		"cannot mount 'tank/e2': encryption key not loaded":                                                                ErrKeyMissing,
		"cannot clear errors for sus: I/O error":                                                                           ErrUnhealthy,
		"cannot set property for 'tank/v1': 'volsize' must be a multiple of volume block size (16K)":                       ErrRefused,
		"bad property list: invalid property 'nosuch'\nusage:\n\tget":                                                      ErrRefused,
		"cannot create 'tank/a+b': invalid character '+' in name":                                                          ErrRefused,
	} {
		err := Classify(&command.ExitError{Cmd: "zfs", Code: 1, Stderr: text})
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", strings.SplitN(text, "\n", 2)[0], err, want)
		}
		if code, ok := command.ExitCode(err); !ok || code != 1 {
			t.Errorf("%q: the exit code is lost", text)
		}
	}
	unknown := &command.ExitError{Cmd: "zpool export", Code: 1}
	if got := Classify(unknown); !errors.Is(got, unknown) || got.Error() != unknown.Error() {
		t.Errorf("a refusal without a word: %v", got)
	}
}
