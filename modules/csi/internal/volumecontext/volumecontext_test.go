package volumecontext_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/volumecontext"
)

func ptr(n int) *int { return &n }

func TestDecodeReadsWhatEncodeWrites(t *testing.T) {
	for name, want := range map[string]volumecontext.Context{
		"nothing": {},
		"everything": {
			Connection: initiator.Params{
				CtrlLossTimeout: ptr(-1), ReconnectDelay: ptr(1), KeepAliveTimeout: ptr(5),
				FastIOFailTimeout: ptr(0), IOQueues: ptr(8), QueueSize: ptr(128),
			},
			MkfsOptions: "-m 0", CheckFilesystem: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := volumecontext.Decode(want.Encode())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestKeysAreAllThatEncodeWrites(t *testing.T) {
	full := volumecontext.Context{
		Connection: initiator.Params{
			CtrlLossTimeout: ptr(1), ReconnectDelay: ptr(1), KeepAliveTimeout: ptr(1),
			FastIOFailTimeout: ptr(1), IOQueues: ptr(1), QueueSize: ptr(16),
		},
		MkfsOptions: "-m 0", CheckFilesystem: true,
	}
	keys := volumecontext.Keys()
	for key := range full.Encode() {
		found := false
		for _, k := range keys {
			found = found || k == key
		}
		if !found {
			t.Errorf("Keys() lacks %q", key)
		}
	}
	if len(keys) != len(full.Encode()) {
		t.Errorf("Keys() = %v, Encode writes %v", keys, full.Encode())
	}
}

func TestDecodeIgnoresWhatKubernetesAdds(t *testing.T) {
	_, err := volumecontext.Decode(map[string]string{
		"storage.kubernetes.io/csiProvisionerIdentity": "x",
		"csi.storage.k8s.io/serviceAccount.tokens":     "{}",
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDecodeRefusesAndNamesTheRule(t *testing.T) {
	for name, c := range map[string]struct{ key, value, says string }{
		"another connect option (SE4)": {"ctrl-loss-tmo", "-1,hostnqn=x", "not a whole number"},
		"a plus sign":                  {"queue-size", "+128", "not a whole number"},
		"hexadecimal":                  {"queue-size", "0x80", "not a whole number"},
		"empty":                        {"reconnect-delay", "", "not a whole number"},
		"below the range":              {"ctrl-loss-tmo", "-2", "want -1 to 86400"},
		"above the range":              {"nr-io-queues", "1025", "want 1 to 1024"},
		"unknown":                      {"traddr", "10.0.0.1", `unknown key "traddr"`},
		"very long":                    {"queue-size", strings.Repeat("1", 9000), "…"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := volumecontext.Decode(map[string]string{c.key: c.value})
			if !errors.Is(err, volumecontext.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want ErrInvalid that says %q", err, c.says)
			}
		})
	}
}

func TestMkfsArgumentsAreCheckedForTheFilesystem(t *testing.T) {
	c := volumecontext.Context{MkfsOptions: "-m 0"}
	if _, err := c.MkfsArguments("ext4"); err != nil {
		t.Error(err)
	}
	if _, err := c.MkfsArguments("xfs"); !errors.Is(err, volumecontext.ErrInvalid) {
		t.Errorf("ext4's options for xfs: got %v, want ErrInvalid", err)
	}
}

// FuzzDecode looks for an accepted value that could become another option.
func FuzzDecode(f *testing.F) {
	f.Add("ctrl-loss-tmo", "-1")
	f.Add("queue-size", "128,hostnqn=x")
	f.Add("mkfs-options", "-m 0")
	f.Fuzz(func(t *testing.T, key, value string) {
		c, err := volumecontext.Decode(map[string]string{key: value})
		if err != nil {
			return
		}
		for k, v := range c.Encode() {
			if k != volumecontext.KeyMkfsOptions && strings.Trim(v, "-0123456789") != "" {
				t.Errorf("%q=%q became %q", key, value, v)
			}
		}
	})
}
