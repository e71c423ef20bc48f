package kubectl_test

import (
	"strings"
	"testing"

	"github.com/distort-io/distort/modules/manager/internal/overview"
)

func TestCapacity(t *testing.T) {
	ns := namespaceOf(t)
	newVolume(t, ns, "data")
	term := open(t, server.viewer)
	r := term.run(t, "capacity")
	r.ended(t, 0)
	want := `
NODE / DRIVE / VOLUME  STATE      CLAIM                   BACKEND  TOTAL  RESERVED  FREE  LARGEST  USE
storage-a              Ready                                       8Gi    1Gi       7Gi   ?        ███░░░░░░░░░░░░░░░░░  12%
├─ SN-A-1              Claimed    distort-system/drive-a  kernel   8Gi    1Gi       7Gi   ?        ███░░░░░░░░░░░░░░░░░  12%
│  └─ demo-xxxxx/data                                                     1Gi
└─ SN-A-2              Available                                   8Gi
all claimed drives                                                 8Gi    1Gi       7Gi   ?        ███░░░░░░░░░░░░░░░░░  12%

8Gi on drives that nothing claims
`
	if got := strings.ReplaceAll(r.out, ns, "demo-xxxxx"); got != strings.TrimPrefix(want, "\n") {
		t.Errorf("got\n%s\nwant%s", got, want)
	}
	var tree overview.Tree
	term.run(t, "capacity", "-o", "json").decode(t, &tree)
	if tree.Total != 8*gib || tree.Reserved != gib || tree.Free != 7*gib || tree.Unclaimed != 8*gib || tree.Nodes[0].Drives[0].Volumes[0].Claim != ns+"/data" {
		t.Errorf("got %+v", tree)
	}
}

func TestCapacityNeedsTheDrives(t *testing.T) {
	open(t, server.clerk).run(t, "capacity").ended(t, 2, "read the inventory", "nvmedevices", "forbidden")
}
