package handle

import (
	"errors"
	"strings"
	"testing"
)

const uid = "7b1c36c5-3a4f-4a0b-9d5e-2f6c1d7e8a90"

func TestHandleTextNeverChanges(t *testing.T) {
	cases := map[string]Handle{
		"partition:distort-system:pvc-1:" + uid: {NVMePartition, "distort-system", "pvc-1", uid},
		"volume::pvc-2:" + uid:                  {Volume, "", "pvc-2", uid},
		"snapshot::snap.1:" + uid:               {Snapshot, "", "snap.1", uid},
	}
	for text, handle := range cases {
		t.Run(text, func(t *testing.T) {
			if got := handle.String(); got != text {
				t.Errorf("String() = %q, want %q", got, text)
			}
			got, err := Parse(text)
			if err != nil || got != handle {
				t.Errorf("Parse = %+v, %v, want %+v", got, err, handle)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	cases := map[string]struct{ text, says string }{
		"nothing":                         {"", "is not <kind>"},
		"three parts":                     {"volume:pvc:" + uid, "is not <kind>"},
		"five parts":                      {"volume::pvc:" + uid + ":x", "is not <kind>"},
		"unknown kind":                    {"disk::pvc:" + uid, `unknown kind "disk"`},
		"a kind by its Go name":           {"Volume::pvc:" + uid, `unknown kind "Volume"`},
		"no kind":                         {"::pvc:" + uid, `unknown kind ""`},
		"a partition without namespace":   {"partition::pvc:" + uid, "with namespace"},
		"a volume with namespace":         {"volume:default:pvc:" + uid, "with namespace"},
		"namespace with a dot":            {"partition:a.b:pvc:" + uid, "not a DNS label"},
		"namespace that is a path":        {"partition:../x:pvc:" + uid, "not a DNS label"},
		"no name":                         {"volume:::" + uid, "not a DNS subdomain"},
		"upper case name":                 {"volume::PVC:" + uid, "not a DNS subdomain"},
		"name with a slash":               {"volume::a/b:" + uid, "not a DNS subdomain"},
		"name with a newline":             {"volume::pvc\n:" + uid, "not a DNS subdomain"},
		"name with two dots":              {"volume::a..b:" + uid, "not a DNS subdomain"},
		"name that is an option":          {"volume::-rf:" + uid, "not a DNS subdomain"},
		"no UID":                          {"volume::pvc:", "not a canonical UUID"},
		"UID in upper case":               {"volume::pvc:" + strings.ToUpper(uid), "not a canonical UUID"},
		"UID with a newline":              {"volume::pvc:" + uid + "\n", "not a canonical UUID"},
		"a byte too long":                 {"volume::" + strings.Repeat("a", MaxLength-len("volume:::")-len(uid)+1) + ":" + uid, "at most 128"},
		"a namespace that fills the room": {"partition:" + strings.Repeat("n", 63) + ":" + strings.Repeat("a", 40) + ":" + uid, "at most 128"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tc.text)
			if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("Parse(%q) = %+v, %v, want ErrMalformed that says %q", tc.text, got, err, tc.says)
			}
			if got != (Handle{}) {
				t.Errorf("Parse(%q) returned %+v with its error", tc.text, got)
			}
		})
	}
}

func TestLongestHandleFits(t *testing.T) {
	longest := Handle{Volume, "", strings.Repeat("a", MaxLength-len("volume:::")-len(uid)), uid}
	if err := longest.Validate(); err != nil || len(longest.String()) != MaxLength {
		t.Errorf("handle of %d bytes: %v", len(longest.String()), err)
	}
	// A partition's name has at most 40 bytes, so its namespace may have 40.
	partition := Handle{NVMePartition, strings.Repeat("n", 40), strings.Repeat("a", 40), uid}
	if err := partition.Validate(); err != nil {
		t.Errorf("partition in a namespace of 40 bytes: %v", err)
	}
}

func TestValidateKnowsTheKinds(t *testing.T) {
	if err := (Handle{"Disk", "", "pvc", uid}).Validate(); !errors.Is(err, ErrMalformed) {
		t.Errorf("unknown kind: %v, want ErrMalformed", err)
	}
}

func FuzzParseIsTheInverseOfString(f *testing.F) {
	for _, seed := range []string{
		"", ":::", "partition:distort-system:pvc-1:" + uid, "volume::pvc-2:" + uid, "snapshot::s.1:" + uid,
		"volume::a..b:" + uid, "partition:a.b:c:" + uid, "volume::pvc:" + uid + "\n", strings.Repeat(":", 200),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("Parse(%q): %v is not ErrMalformed", text, err)
			}
			return
		}
		if h.String() != text {
			t.Errorf("Parse(%q).String() = %q", text, h.String())
		}
		if err := h.Validate(); err != nil {
			t.Errorf("Parse(%q) is not valid: %v", text, err)
		}
		if len(text) > MaxLength || strings.ContainsAny(text, "/\x00\n \\") || strings.Contains(text, "..") {
			t.Errorf("Parse accepted %q", text)
		}
	})
}
