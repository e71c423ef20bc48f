package guestinit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/distort-io/distort/e2e/internal/guestspec"
)

func TestOnlyWhatIsOnDevicesIsUnmounted(t *testing.T) {
	const table = `21 1 254:0 / / rw,noatime shared:1 - ext4 /dev/vda rw
22 21 0:5 / /dev rw,nosuid shared:2 - devtmpfs devtmpfs rw,size=10k
30 21 254:16 / /opt/lab ro,noatime shared:3 - ext4 /dev/vdb ro
60 21 259:3 / /var/lib/kubelet/plugins/a\040b/globalmount rw shared:9 - ext4 /dev/nvme0n1 rw
61 21 259:3 / /var/lib/kubelet/pods/x/mount rw shared:9 - ext4 /dev/nvme0n1 rw
`
	got, err := diskMounts(strings.NewReader(table))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/var/lib/kubelet/pods/x/mount", "/var/lib/kubelet/plugins/a b/globalmount", "/opt/lab", "/"}
	if !slices.Equal(got, want) {
		t.Errorf("mounts are %q, want %q", got, want)
	}
	if _, err := diskMounts(strings.NewReader("nonsense\n")); err == nil {
		t.Error("a line that is no mount was accepted")
	}
}

func TestWhoIsNotSignalled(t *testing.T) {
	proc := t.TempDir()
	for pid, exe := range map[string]string{"1": guestspec.Program, "2": "", "40": "", "41": guestspec.Program, "50": "/usr/bin/sleep", "51": "/opt/lab/bin/" + shim, "self": "/usr/bin/ls"} {
		dir := filepath.Join(proc, pid)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if exe == "" {
			continue // as a kernel thread
		}
		if err := os.Symlink(exe, filepath.Join(dir, "exe")); err != nil {
			t.Fatal(err)
		}
	}
	for spared, want := range map[string][]int{shim: {50}, "": {50, 51}} {
		got, err := others(proc, spared)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("with %q spared the processes to signal are %v, want %v", spared, got, want)
		}
	}
}
