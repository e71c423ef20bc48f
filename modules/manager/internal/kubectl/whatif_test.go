package kubectl_test

import (
	"slices"
	"testing"

	"github.com/distort-io/distort/modules/manager/internal/whatif"
)

func TestWhatIf(t *testing.T) {
	ns := namespaceOf(t)
	newVolume(t, ns, "data")
	term := open(t, server.viewer)
	for name, tc := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"a storage node": {[]string{"drain-node", storageNode}, 1, []string{"1 volumes affected", ns + "/data", ns + "/app-data", "stored", "I/O waits while the node is down", "draining moves no data"}},
		"a consumer":     {[]string{"drain-node", consumer}, 1, []string{"used", "starts elsewhere", "Pod " + ns + "/app-data", "has no controller"}},
		"a full drive":   {[]string{"remove-device", serial}, 1, []string{"for good", "NVMeDeviceClaim distort-system/drive-a", "is not released while partitions are on the drive"}},
		"an empty drive": {[]string{"remove-device", "SN-A-2"}, 0, []string{"0 volumes affected, 0 refusals", "is not claimed"}},
		"an agent":       {[]string{"upgrade-agent", storageNode}, 1, []string{"none: the kernel serves it", "until the new agent is ready"}},
		"no node":        {[]string{"drain-node", "nowhere"}, 2, []string{"node nowhere: not found"}},
		"no drive":       {[]string{"remove-device", "SN-X"}, 2, []string{`drive "SN-X": not found`}},
		"no agent":       {[]string{"upgrade-agent", consumer}, 2, []string{"storage node consumer-a: not found"}},
		"nothing":        {[]string{"drain-node"}, 2, []string{"want exactly one node, got 0 arguments"}},
		"what":           {[]string{"explode"}, 2, []string{`unexpected argument "explode"`}},
	} {
		t.Run(name, func(t *testing.T) {
			term.run(t, append([]string{"what-if"}, tc.args...)...).ended(t, tc.code, tc.says...)
		})
	}
	var plan whatif.Plan
	term.run(t, "what-if", "drain-node", consumer, "-o", "json").decode(t, &plan)
	if len(plan.Volumes) != 1 || plan.Volumes[0].Role != whatif.Used || !slices.Equal(plan.Volumes[0].Pods, []string{ns + "/app-data"}) {
		t.Errorf("got %+v", plan)
	}
}
