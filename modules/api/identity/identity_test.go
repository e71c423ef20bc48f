package identity

import (
	"regexp"
	"strings"
	"testing"
)

const (
	uid   = "7b1c36c5-3a4f-4a0b-9d5e-2f6c1d7e8a90"
	other = "7b1c36c5-3a4f-4a0b-9d5e-2f6c1d7e8a91"
)

// TestIdentitiesNeverChange pins what is stored on drives, in targets and in
// the memory of connected hosts. A failure here is a change that makes running
// pods lose their disks: the code is wrong, never the value in this table.
func TestIdentitiesNeverChange(t *testing.T) {
	cases := map[string]struct{ got, want string }{
		"HostNQN":              {HostNQN("consumer-a"), "nqn.2026-01.io.distort:host-f1f3dec9db3d3db341266a0d8ca4e1bc"},
		"HostID":               {HostID("consumer-a"), "f1f3dec9-db3d-3db3-4126-6a0d8ca4e1bc"},
		"ExternalID":           {ExternalID(uid), "vol-311df81be820b5c56ea4cc4ce181f809"},
		"VolumeNQN":            {VolumeNQN(ExternalID(uid)), "nqn.2026-02.io.distort:volume-vol-311df81be820b5c56ea4cc4ce181f809"},
		"NamespaceUUID":        {NamespaceUUID(uid), "8407030e-cc18-8bb0-8a78-213e45fc7924"},
		"NamespaceNGUID":       {NamespaceNGUID(uid), "c4a2f2d3-4e2c-86a0-8f3e-4018bd2c7715"},
		"SubsystemSerial":      {SubsystemSerial(uid), "ced9a9cd742268d85589"},
		"PartitionUUID":        {PartitionUUID(uid), "69c9033e-da3c-8116-a345-54880b3a3f55"},
		"FilesystemUUID":       {FilesystemUUID(uid), "cd5b6d35-caf6-889a-845c-fb22e4356425"},
		"DiskGUID":             {DiskGUID("S4EMNX0R123456"), "6f68c81b-627b-8490-8180-7c5b13413d70"},
		"DeviceName":           {DeviceName("storage-a", "S4EMNX0R123456"), "storage-a-9f5b82bda423d9e2"},
		"VolumeName of others": {VolumeName("A name, not a label"), "csi-49cae2e995edfbbcb60110e53717dc23"},
		"AttachmentName":       {AttachmentName(uid), "att-102fe33bcdfb5bc5fd9a3a17c7586ae2"},
		"SharedAttachmentName": {SharedAttachmentName(uid, "consumer-a"), "att-1f8cab690befe2eeb3284a518b3a75dd"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("got %s, want %s", tc.got, tc.want)
			}
		})
	}
	if NSID != 1 {
		t.Errorf("NSID is %d, want 1", NSID)
	}
}

func TestIdentitiesOfOneVolumeDiffer(t *testing.T) {
	seen := map[string]string{}
	for name, id := range map[string]string{
		"NamespaceUUID": NamespaceUUID(uid), "NamespaceNGUID": NamespaceNGUID(uid), "PartitionUUID": PartitionUUID(uid),
		"FilesystemUUID": FilesystemUUID(uid), "DiskGUID": DiskGUID(uid), "NamespaceUUID of another": NamespaceUUID(other),
		"PartitionUUID of another": PartitionUUID(other),
	} {
		if twin, taken := seen[id]; taken {
			t.Errorf("%s and %s are both %s", name, twin, id)
		}
		seen[id] = name
	}
}

func TestDerivationTellsPartsApart(t *testing.T) {
	if digest("p", "a", "bc") == digest("p", "ab", "c") || digest("p", "abc") == digest("p", "ab", "c") || digest("p", "a") == digest("q", "a") {
		t.Error("two derivations of different input are equal")
	}
	if SharedAttachmentName(uid, "") == AttachmentName(uid) {
		t.Error("the attachment of a nameless node is the attachment of a single writer")
	}
}

func TestIsHostNQN(t *testing.T) {
	cases := map[string]bool{
		HostNQN("node"):                  true,
		"":                               false,
		"nqn.2026-01.io.distort:host-":   false,
		strings.ToUpper(HostNQN("node")): false,
		HostNQN("node") + "0":            false,
		HostNQN("node") + "\n":           false,
		"nqn.2014-08.org.nvmexpress:uuid:7b1c36c5-3a4f-4a0b-9d5e-2f6c1d7e8a90": false,
	}
	for nqn, want := range cases {
		if got := IsHostNQN(nqn); got != want {
			t.Errorf("IsHostNQN(%q) = %v, want %v", nqn, got, want)
		}
	}
}

func TestExternalIDOfNQN(t *testing.T) {
	id := ExternalID(uid)
	cases := map[string]struct {
		nqn  string
		want string
		ok   bool
	}{
		"the inverse":        {VolumeNQN(id), id, true},
		"nothing":            {"", "", false},
		"no volume":          {volumeNQNPrefix, "", false},
		"a foreign NQN":      {"nqn.2019-10.com.example:volume-" + id, "", false},
		"another ID":         {volumeNQNPrefix + "vol-1", "vol-1", false},
		"something after it": {VolumeNQN(id) + ":x", id + ":x", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := ExternalIDOfNQN(tc.nqn)
			if ok != tc.ok || ok && got != tc.want {
				t.Errorf("got %q, %v, want %q, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestVolumeNameKeepsShortLabels(t *testing.T) {
	cases := map[string]struct {
		request string
		kept    bool
	}{
		"external-provisioner's":     {"pvc-7b1c36c5-3a4f-4a0b-9d5e-2f6c1d7e8a90", true},
		"the longest":                {strings.Repeat("a", maxVolumeName), true},
		"one longer":                 {strings.Repeat("a", maxVolumeName+1), false},
		"upper case":                 {"PVC-1", false},
		"with a dot":                 {"pvc.1", false},
		"that ends with a dash":      {"pvc-", false},
		"with a newline":             {"pvc\n", false},
		"empty":                      {"", false},
		"with a path in it":          {"../pvc", false},
		"of characters beyond ASCII": {"größe", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := VolumeName(tc.request); (got == tc.request) != tc.kept {
				t.Errorf("VolumeName(%q) = %q, kept should be %v", tc.request, got, tc.kept)
			}
		})
	}
}

func FuzzIdentitiesHaveTheirForm(f *testing.F) {
	for _, seed := range []string{"", uid, "storage-a.example.org", "-", "Ä\x00\n", strings.Repeat("x", 300)} {
		f.Add(seed)
	}
	forms := map[string]*regexp.Regexp{
		"uuid":  regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`),
		"host":  regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`),
		"label": regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`),
		"hex20": regexp.MustCompile(`^[0-9a-f]{20}$`),
	}
	f.Fuzz(func(t *testing.T, s string) {
		for form, values := range map[string][]string{
			"uuid":  {NamespaceUUID(s), NamespaceNGUID(s), PartitionUUID(s), FilesystemUUID(s), DiskGUID(s)},
			"host":  {HostID(s)},
			"label": {DeviceName(s, s), VolumeName(s), AttachmentName(s), SharedAttachmentName(s, s), ExternalID(s)},
			"hex20": {SubsystemSerial(s)},
		} {
			for _, value := range values {
				if !forms[form].MatchString(value) {
					t.Errorf("%q of %q is not a %s", value, s, form)
				}
			}
		}
		if len(VolumeName(s)) > maxVolumeName {
			t.Errorf("VolumeName(%q) has %d bytes, at most %d", s, len(VolumeName(s)), maxVolumeName)
		}
		for _, nqn := range []string{HostNQN(s), VolumeNQN(ExternalID(s))} {
			if len(nqn) > MaxNQNLength {
				t.Errorf("NQN of %q has %d bytes, at most %d", s, len(nqn), MaxNQNLength)
			}
		}
		if !IsHostNQN(HostNQN(s)) || !IsExternalID(ExternalID(s)) {
			t.Errorf("identities of %q are not recognised", s)
		}
		if strings.ReplaceAll(HostID(s), "-", "") != strings.TrimPrefix(HostNQN(s), hostNQNPrefix) {
			t.Errorf("host ID and host NQN of %q are not the same 128 bits", s)
		}
	})
}
