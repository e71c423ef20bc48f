package kmod

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const dep = `kernel/fs/ext4/ext4.ko.xz: kernel/lib/crc16.ko.xz kernel/fs/mbcache.ko.xz kernel/fs/jbd2/jbd2.ko.xz
kernel/lib/crc16.ko.xz:
kernel/fs/mbcache.ko.xz:
kernel/fs/jbd2/jbd2.ko.xz:
kernel/drivers/nvme/host/nvme-tcp.ko.xz: kernel/drivers/nvme/host/nvme-fabrics.ko.xz kernel/drivers/nvme/host/nvme-core.ko.xz
kernel/drivers/nvme/host/nvme-fabrics.ko.xz: kernel/drivers/nvme/host/nvme-core.ko.xz
kernel/drivers/nvme/host/nvme-core.ko.xz:
`

func TestClosurePutsDependenciesFirst(t *testing.T) {
	index, err := Parse(strings.NewReader(dep), strings.NewReader("kernel/crypto/crc32c.ko\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := index.Closure([]string{"crc32c", "nvme_tcp", "ext4", "nvme-fabrics"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"kernel/drivers/nvme/host/nvme-core.ko.xz", "kernel/drivers/nvme/host/nvme-fabrics.ko.xz", "kernel/drivers/nvme/host/nvme-tcp.ko.xz",
		"kernel/fs/jbd2/jbd2.ko.xz", "kernel/fs/mbcache.ko.xz", "kernel/lib/crc16.ko.xz", "kernel/fs/ext4/ext4.ko.xz",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestClosureRefusesUnknownModules(t *testing.T) {
	index, err := Parse(strings.NewReader(dep), strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := index.Closure([]string{"ext5"}); err == nil || !strings.Contains(err.Error(), `"ext5"`) {
		t.Errorf("got %v, want an error that names the module", err)
	}
}
