package filesystem

import (
	"strings"
	"testing"

	"github.com/distort-io/distort/modules/csi/internal/blockdev"
	"github.com/google/go-cmp/cmp"
)

func TestParseMountinfo(t *testing.T) {
	const text = `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
37 35 259:2 / /var/lib/a\040b\134c ro,relatime shared:3 master:4 - ext4 /dev/nvme1n1 rw
38 35 0:5 /nvme1n1 /t rw - devtmpfs udev rw,size=4k
`
	got, err := parseMountinfo(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []Mount{
		{blockdev.Number{Major: 98}, "/mnt1", "/mnt2", []string{"rw", "noatime"}, "ext3", "/dev/root", []string{"rw", "errors=continue"}},
		{blockdev.Number{Major: 259, Minor: 2}, "/", `/var/lib/a b\c`, []string{"ro", "relatime"}, "ext4", "/dev/nvme1n1", []string{"rw"}},
		{blockdev.Number{Minor: 5}, "/nvme1n1", "/t", []string{"rw"}, "devtmpfs", "udev", []string{"rw", "size=4k"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{"36 35 98:0 / /x rw", "36 35 98 / /x rw - ext4 a rw", "- ext4 a rw"} {
		if _, err := parseMountinfo(bad); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}

func TestThisHostsMountTableIsReadable(t *testing.T) {
	mounts, err := New(Options{}).Mounts()
	if err != nil || len(mounts) == 0 {
		t.Fatalf("%d mounts, %v", len(mounts), err)
	}
}

func FuzzUnescape(f *testing.F) {
	f.Add(`a\040b`)
	f.Add(`\`)
	f.Add(`\777`)
	f.Fuzz(func(t *testing.T, s string) {
		if got := unescape(strings.ReplaceAll(s, `\`, `\134`)); got != s {
			t.Errorf("unescape(escape(%q)) = %q", s, got)
		}
	})
}
