package fencemodel

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
)

// envDeep makes the model as large as `make fence-model` wants it.
const envDeep = "FENCE_MODEL_DEEP"

// small is what every test run can afford.
func small() map[string]bounds {
	return map[string]bounds{
		"takeover, no faults":                  {publishes: []string{hostA, hostB}, writes: counts(1, 0)},
		"revocation, the agent dies once":      {publishes: []string{hostA}, writes: counts(1, 0), crashes: 1},
		"revocation, the storage node reboots": {publishes: []string{hostA}, writes: counts(1, 0), storageReboots: 1},
		"revocation, the CSI controller dies":  {publishes: []string{hostA}, writes: counts(1, 0), csiCrashes: 1},
	}
}

// deep is what make fence-model explores besides.
func deep() map[string]bounds {
	return map[string]bounds{
		"takeover, the agent dies once":         {publishes: []string{hostA, hostB}, writes: counts(1, 1), crashes: 1, quietly: true, delays: 1},
		"there and back, no faults":             {publishes: []string{hostA, hostB, hostA}, writes: counts(2, 1)},
		"takeover, the storage node reboots":    {publishes: []string{hostA, hostB}, writes: counts(1, 0), storageReboots: 1},
		"takeover, the CSI controller dies":     {publishes: []string{hostA, hostB}, writes: counts(1, 0), csiCrashes: 1},
		"revocation, CSI and the agent die":     {publishes: []string{hostA}, writes: counts(1, 0), csiCrashes: 1, crashes: 1, delays: 1},
		"revocation, a reboot of each":          {publishes: []string{hostA}, writes: counts(1, 0), storageReboots: 1, hostReboots: 1},
		"two revocations, the agent dies twice": {publishes: []string{hostA, hostA}, writes: counts(1, 0), crashes: 2, quietly: true, delays: 1},
	}
}

func counts(a, b int) map[string]int { return map[string]int{hostA: a, hostB: b} }

// TestFenceModel visits every state of the attachment protocol within the bounds.
func TestFenceModel(t *testing.T) {
	cases := small()
	if os.Getenv(envDeep) != "" {
		for name, b := range deep() {
			cases[name] = b
		}
	}
	for name, limit := range cases {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			e := explore(limit, noBugs())
			t.Logf("%s: %d states, %d transitions, at most %d steps deep, in %s", name, len(e.ids), e.transitions, e.deepest, time.Since(began).Round(time.Millisecond))
			if e.broken != "" {
				t.Fatal(e.broken)
			}
			if len(e.ids) < 100 {
				t.Errorf("only %d states: the model does not move", len(e.ids))
			}
		})
	}
}

// TestFenceModelFindsPlantedBugs shows that the model can fail.
func TestFenceModelFindsPlantedBugs(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(*bugs)
		finds string
	}{
		"controllers are not dropped": {
			func(b *bugs) { b.configfs = func(fs kernel.FS) kernel.FS { return &keepsSubsystem{FS: fs} } },
			"can reach the volume while \"\" holds it",
		},
		"evidence without a fence": {
			func(b *bugs) { b.backend = func(x export.Backend) export.Backend { return &believer{x} } },
			"can reach the volume",
		},
	} {
		t.Run(name, func(t *testing.T) {
			planted := noBugs()
			c.plant(&planted)
			e := explore(bounds{publishes: []string{hostA, hostB}, writes: counts(1, 0)}, planted)
			if !strings.Contains(e.broken, c.finds) {
				t.Errorf("%d states, and found %q; want %q", len(e.ids), e.broken, c.finds)
			}
			t.Logf("found after %d states:\n%s", len(e.ids), e.broken)
		})
	}
}

// keepsSubsystem does not remove subsystems, so that their controllers live on in
// what is taken for a new one.
type keepsSubsystem struct {
	kernel.FS
	removed bool
}

func (k *keepsSubsystem) Rmdir(path string) error {
	if path == "subsystems/"+nqn {
		k.removed = true
		return nil
	}
	return k.FS.Rmdir(path)
}

func (k *keepsSubsystem) Mkdir(path string) error {
	if path == "subsystems/"+nqn && k.removed {
		k.removed = false
		return nil
	}
	return k.FS.Mkdir(path)
}

func (k *keepsSubsystem) ReadDir(path string) ([]string, error) {
	names, err := k.FS.ReadDir(path)
	if path == "subsystems" && k.removed {
		names = nil
	}
	return names, err
}

// believer takes a host for fenced without a look.
type believer struct{ export.Backend }

func (believer) Revoke(context.Context, types.UID, string) (export.Evidence, error) {
	return export.Evidence{Observed: "nothing", Source: "belief", At: time.Unix(0, 0)}, nil
}
