package mkfsoptions_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/csi/internal/mkfsoptions"
)

func TestParseAcceptsGeometryAndFeatures(t *testing.T) {
	for name, c := range map[string]struct {
		filesystem, text string
		want             []string
	}{
		"nothing":                      {"ext4", "", nil},
		"nothing for no filesystem":    {"", "", nil},
		"ext4 reserved blocks":         {"ext4", "-m 0", []string{"-m", "0"}},
		"ext4 stripe":                  {"ext4", "-b 4096  -E stride=128,stripe_width=256", []string{"-b", "4096", "-E", "stride=128,stripe_width=256"}},
		"xfs with suffixes":            {"xfs", "-d su=64k,sw=4 -l size=128m", []string{"-d", "su=64k,sw=4", "-l", "size=128m"}},
		"xfs features":                 {"xfs", "-m reflink=0,rmapbt=1", []string{"-m", "reflink=0,rmapbt=1"}},
		"xfs sector size with a unit":  {"xfs", "-s size=4k", []string{"-s", "size=4k"}},
		"xfs inode size without a one": {"xfs", "-i size=512", []string{"-i", "size=512"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := mkfsoptions.Parse(c.filesystem, c.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefusesAndNamesTheRule(t *testing.T) {
	for name, c := range map[string]struct {
		filesystem, text, says string
	}{
		"a device (SE4)":              {"ext4", "-m 0 /dev/sda", "not a list of flags"},
		"an operand in a flag's seat": {"ext4", "/dev/sda 1", `"/dev/sda" is not allowed`},
		"a UUID":                      {"ext4", "-U random", `"-U" is not allowed`},
		"force":                       {"xfs", "-f -f", `"-f" is not allowed`},
		"a journal device":            {"ext4", "-J device=/dev/sdb", `"device" is not allowed`},
		"an external log":             {"xfs", "-l logdev=/dev/sdb", `"logdev" is not allowed`},
		"discard":                     {"ext4", "-E discard", `"discard" is not allowed`},
		"the flag of another":         {"xfs", "-I 256", `"-I" is not allowed`},
		"a filesystem without any":    {"", "-m 0", "takes none"},
		"a flag twice":                {"ext4", "-m 0 -m 1", "given twice"},
		"a suboption twice":           {"ext4", "-E stride=1,stride=2", "given twice"},
		"above the range":             {"ext4", "-m 51", "not within 0 to 50"},
		"not in the list":             {"ext4", "-b 65536", "not one of"},
		"a plus sign":                 {"ext4", "-m +1", "not a number"},
		"a leading zero":              {"ext4", "-m 01", "not a number"},
		"an empty value":              {"xfs", "-d su=", "not a number"},
		"a unit where none is read":   {"ext4", "-i 4k", "not a number"},
		"a control byte":              {"ext4", "-m 0\n", "not a number"},
		"a tab for a space":           {"ext4", "-m\t0", "not a list of flags"},
		"endless":                     {"ext4", strings.Repeat(" ", 600), "at most 512"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mkfsoptions.Parse(c.filesystem, c.text)
			if !errors.Is(err, mkfsoptions.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Parse(%q, %q) = %v, want ErrInvalid that says %q", c.filesystem, c.text, err, c.says)
			}
		})
	}
}

// FuzzParse looks for an accepted text that holds more than flags, words and
// numbers.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "-m 0", "-E stride=1,stripe_width=2", "-d su=64k", "-b\x00 1", "-m 0 -- /dev/sda"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, filesystem := range []string{"ext4", "xfs"} {
			words, err := mkfsoptions.Parse(filesystem, text)
			if err != nil {
				continue
			}
			for i, w := range words {
				if strings.Trim(w, "-abcdefghijklmnopqrstuvwxyzEIJN_0123456789=,") != "" {
					t.Errorf("%q: word %q was accepted", text, w)
				}
				if (i%2 == 0) != strings.HasPrefix(w, "-") {
					t.Errorf("%q: word %d is %q", text, i, w)
				}
			}
		}
	})
}
