package initramfs

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// read unpacks concatenated newc archives, as the kernel does.
func read(t *testing.T, data []byte) []string {
	t.Helper()
	var entries []string
	for at := 0; at < len(data); {
		if data[at] == 0 {
			at++
			continue
		}
		if at%4 != 0 || string(data[at:at+6]) != "070701" {
			t.Fatalf("no header at offset %d: %q", at, data[at:min(len(data), at+6)])
		}
		field := func(i int) int {
			value, err := strconv.ParseUint(string(data[at+6+8*i:at+14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(value)
		}
		mode, size, nameSize := field(1), field(6), field(11)
		name := string(data[at+110 : at+110+nameSize-1])
		content := (at + 110 + nameSize + 3) / 4 * 4
		if name != trailer {
			entries = append(entries, fmt.Sprintf("%s %o %q", name, mode, data[content:content+size]))
		}
		at = (content + size + 3) / 4 * 4
	}
	return entries
}

func TestArchivesThatFollowOneAnotherAreReadBack(t *testing.T) {
	var out bytes.Buffer
	first, second := NewWriter(&out), NewWriter(&out)
	for _, err := range []error{
		first.Directory("dev"), first.File("init", 0o755, []byte("program")), first.File("empty", 0o600, nil), first.Close(),
		second.File("lab/spec.json", 0o600, []byte("{}")), second.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{`dev 40755 ""`, `init 100755 "program"`, `empty 100600 ""`, `lab/spec.json 100600 "{}"`}
	if diff := cmp.Diff(want, read(t, out.Bytes())); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if out.Len()%512 != 0 {
		t.Errorf("archive has %d bytes, not a multiple of 512", out.Len())
	}
}
