package filesystem

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"
)

// The superblock is read as mkfs.ext4 writes it.
func TestExt4Size(t *testing.T) {
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		t.Skipf("%v; the end-to-end suite grows filesystems in its guests", err)
	}
	for name, args := range map[string][]string{
		"4 KiB blocks":   {"-b", "4096"},
		"1 KiB blocks":   {"-b", "1024"},
		"without 64-bit": {"-b", "1024", "-O", "^64bit"},
		"with 64-bit":    {"-b", "4096", "-O", "64bit"},
	} {
		t.Run(name, func(t *testing.T) {
			image := filepath.Join(t.TempDir(), "image")
			const size = 68 << 20
			if err := os.WriteFile(image, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(image, size); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), mkfs, append(append([]string{"-q", "-F"}, args...), "--", image)...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			got, err := LinuxDevices{}.FilesystemSize(Ext4, image, "")
			if err != nil || got != size {
				t.Errorf("got %d, %v, want %d", got, err, size)
			}
		})
	}
}

func TestExt4SizeRefusesWhatIsNone(t *testing.T) {
	block := make([]byte, superblockSize)
	if size, err := ext4Size(block); err == nil {
		t.Errorf("zeros have %d bytes", size)
	}
	block[0x38], block[0x39] = 0x53, 0xef
	block[0x18] = 0xff // 2^255 KiB
	if size, err := ext4Size(block); err == nil {
		t.Errorf("an impossible block size gives %d bytes", size)
	}
}

// The kernel checks the size that the request's number holds.
func TestXFSGeometryHasTheSizeInItsNumber(t *testing.T) {
	var g xfsGeometry
	if got, want := unsafe.Sizeof(g), uintptr(xfsGetGeometry>>16&0x3fff); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
	if got := unsafe.Offsetof(g.DataBlocks); got != 32 {
		t.Errorf("data blocks at %d, want 32", got)
	}
}
