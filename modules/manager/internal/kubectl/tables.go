package kubectl

import (
	"strings"

	"github.com/distort-io/distort/modules/manager/internal/overview"
	"github.com/distort-io/distort/modules/manager/internal/whatif"
)

// tree writes nodes, drives and volumes.
func (p *printer) tree(t overview.Tree) {
	rows := [][]cell{titles("NODE / DRIVE / VOLUME", "STATE", "CLAIM", "BACKEND", "TOTAL", "RESERVED", "FREE", "LARGEST", "USE")}
	for _, n := range t.Nodes {
		rows = append(rows, row(n.Name, state(n.State, n.Cordoned), "", "", n.Space))
		for i, d := range n.Drives {
			branch, below := "├─ ", "│  "
			if i == len(n.Drives)-1 && len(n.Pools) == 0 {
				branch, below = "└─ ", "   "
			}
			rows = append(rows, driveRow(branch+d.Serial, d))
			for j, v := range d.Volumes {
				leaf := "├─ "
				if j == len(d.Volumes)-1 {
					leaf = "└─ "
				}
				rows = append(rows, volumeRow(below+leaf, v))
			}
		}
		for i, pool := range n.Pools {
			branch := "├─ "
			if i == len(n.Pools)-1 {
				branch = "└─ "
			}
			rows = append(rows, poolRow(branch, pool))
		}
	}
	rows = append(rows, row("all claimed drives", cell{}, "", "", t.Space))
	p.table("", rows)
	if t.Unclaimed > 0 {
		p.printf("\n%s on drives that nothing claims\n", size(t.Unclaimed))
	}
	p.unreadable(t.Unreadable)
}

func titles(names ...string) []cell {
	cells := make([]cell, 0, len(names))
	for _, n := range names {
		cells = append(cells, cell{n, head})
	}
	return cells
}

func state(text string, cordoned bool) cell {
	c := cell{text, bad}
	switch text {
	case "Ready", "Claimed":
		c.style = good
	case "Available", "":
		c.style = ""
	}
	if cordoned {
		c = cell{strings.TrimPrefix(c.text+",Cordoned", ","), busy}
	}
	return c
}

func row(name string, state cell, claim, backend string, s overview.Space) []cell {
	largest := "?"
	if s.Largest != nil {
		largest = size(*s.Largest)
	}
	return []cell{
		plain(name), state, plain(claim), plain(backend),
		plain(size(s.Total)), plain(size(s.Reserved)), plain(size(s.Free)), plain(largest), plain(bar(s.Reserved, s.Total)),
	}
}

// driveRow leaves out what a drive that is not claimed cannot give.
func driveRow(name string, d overview.Drive) []cell {
	r := row(name, state(d.State, d.Cordoned), d.Claim, strings.TrimSuffix(d.Backend, "none"), d.Space)
	if d.Claim == "" {
		return r[:5]
	}
	return r
}

func volumeRow(branch string, v overview.Volume) []cell {
	name, status := v.Claim, cell{}
	if name == "" {
		name = v.Partition
	}
	if v.Deleting {
		status = cell{"Deleting", busy}
	}
	return []cell{plain(branch + name), status, plain(""), plain(""), plain(""), plain(size(v.Bytes))}
}

func poolRow(branch string, pool overview.Pool) []cell {
	status := cell{"NotReady", bad}
	if pool.Ready {
		status = cell{"Ready", good}
	}
	return []cell{plain(branch + "pool " + pool.Name), status, plain(""), plain("zfs"), plain(""), plain(""), plain(size(pool.Free))}
}

// plan writes what an action does.
func (p *printer) plan(plan *whatif.Plan) {
	p.printf("%s: %d volumes affected, %d refusals\n", p.paint(cell{plan.Action + " " + plan.Subject, head}), len(plan.Volumes), len(plan.Refusals))
	if len(plan.Volumes) > 0 {
		rows := [][]cell{titles("VOLUME", "SIZE", "ROLE", "PODS", "OUTAGE")}
		for _, v := range plan.Volumes {
			name, pods := v.Claim, strings.Join(v.Pods, ",")
			if name == "" {
				name = v.Partition
			}
			if pods == "" {
				pods = "-"
			}
			rows = append(rows, []cell{plain(name), plain(size(v.Bytes)), plain(string(v.Role)), plain(pods), plain(v.Outage)})
		}
		p.printf("\n")
		p.table("  ", rows)
	}
	if len(plan.Refusals) > 0 {
		rows := [][]cell{titles("REFUSES", "WHY")}
		for _, r := range plan.Refusals {
			rows = append(rows, []cell{{r.Object, bad}, plain(r.Message)})
		}
		p.printf("\n")
		p.table("  ", rows)
	}
	if len(plan.Notes)+len(plan.Unreadable) > 0 {
		p.printf("\n")
	}
	for _, note := range plan.Notes {
		p.printf("note: %s\n", note)
	}
	p.unreadable(plan.Unreadable)
}
