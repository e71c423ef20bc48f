package initiatortest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distort-io/distort/modules/csi/internal/initiator"
)

// sync makes heads and the tree follow controllers and volumes.
func (k *Kernel) sync() error {
	wanted := map[string]bool{} // NQNs with a controller
	for _, c := range k.controllers {
		nqn := c.options["nqn"]
		wanted[nqn] = true
		if k.subsystems[nqn] == nil {
			k.next++
			k.subsystems[nqn] = &subsystem{nqn: nqn, instance: k.next}
		}
	}
	// What goes first, so that a UUID moves in one step.
	for _, s := range k.subsystems {
		for _, h := range s.heads {
			v, exported := k.volumes[s.nqn]
			alive := h.controller == "" && wanted[s.nqn] ||
				slices.ContainsFunc(k.controllers, func(c *controller) bool { return c.name() == h.controller })
			h.gone = h.gone || !alive || !exported || v.Disabled
			if !k.Unnoticed {
				h.size = v.Size
			}
		}
		s.heads = slices.DeleteFunc(s.heads, func(h *head) bool { return h.gone && h.holders == 0 })
	}
	for _, nqn := range sortedKeys(wanted) {
		s := k.subsystems[nqn]
		if !k.NoMultipath {
			k.addHead(s, "", s.instance)
			continue
		}
		for _, c := range k.controllers {
			if c.options["nqn"] == nqn {
				k.addHead(s, c.name(), c.instance)
			}
		}
	}
	for nqn, s := range k.subsystems {
		if !wanted[nqn] && len(s.heads) == 0 {
			delete(k.subsystems, nqn)
		}
	}
	return k.render()
}

func (k *Kernel) addHead(s *subsystem, controller string, instance int) {
	v, exported := k.volumes[s.nqn]
	if !exported || v.Disabled {
		return
	}
	number := 1
	for _, h := range s.heads {
		if !h.gone && h.controller == controller {
			return
		}
		if h.controller == controller {
			number++ // the name of a held head is not free
		}
	}
	for nqn, other := range k.subsystems {
		if nqn != s.nqn && k.volumes[nqn].UUID == v.UUID && slices.ContainsFunc(other.heads, func(h *head) bool { return !h.gone }) {
			return // "ignoring nsid 1 because of duplicate IDs"
		}
	}
	k.nextMinor++
	s.heads = append(s.heads, &head{
		name: fmt.Sprintf("nvme%dn%d", instance, number), number: initiator.Number{Major: 259, Minor: k.nextMinor},
		volume: s.nqn, controller: controller, size: v.Size,
	})
}

// render writes what changed. Each object is made aside and moved into place,
// as sysfs shows no half-made ones.
func (k *Kernel) render() error {
	want := map[string]map[string]string{} // directory -> attributes
	links := map[string]string{}           // link -> target
	for nqn, s := range k.subsystems {
		name := fmt.Sprintf("nvme-subsys%d", s.instance)
		dir := filepath.Join("devices/virtual/nvme-subsystem", name)
		want[dir] = map[string]string{"subsysnqn": nqn, "subsystype": "nvm"}
		links[filepath.Join("class/nvme-subsystem", name)] = filepath.Join("../..", dir)
		for _, h := range s.heads {
			if !h.gone {
				at := dir
				if h.controller != "" {
					at = filepath.Join("devices/virtual/nvme-fabrics/ctl", h.controller)
				}
				want[filepath.Join(at, h.name)] = k.headAttributes(h)
			}
		}
	}
	for _, c := range k.controllers {
		dir := filepath.Join("devices/virtual/nvme-fabrics/ctl", c.name())
		s := k.subsystems[c.options["nqn"]]
		want[dir] = map[string]string{
			"transport": c.options["transport"], "state": c.state, "subsysnqn": c.options["nqn"],
			"hostnqn": c.options["hostnqn"], "hostid": c.options["hostid"], "cntrltype": "io",
			"address":           fmt.Sprintf("traddr=%s,trsvcid=%s", c.options["traddr"], c.options["trsvcid"]),
			"delete_controller": "", "rescan_controller": "",
		}
		maps.Copy(want[dir], c.attributes())
		links[filepath.Join("class/nvme", c.name())] = filepath.Join("../..", dir)
		links[filepath.Join("devices/virtual/nvme-subsystem", fmt.Sprintf("nvme-subsys%d", s.instance), c.name())] =
			filepath.Join("../../nvme-fabrics/ctl", c.name())
	}
	return k.apply(want, links)
}

func (k *Kernel) headAttributes(h *head) map[string]string {
	v := k.volumes[h.volume]
	attributes := map[string]string{
		"dev": h.number.String(), "size": fmt.Sprint(h.size / 512), "nsid": fmt.Sprint(v.NSID), "uuid": v.UUID, "hidden": "0",
	}
	if v.NGUID != "" {
		attributes["nguid"] = v.NGUID
	}
	return attributes
}

func (k *Kernel) apply(want map[string]map[string]string, links map[string]string) error {
	root := k.Sysfs()
	var stale []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		_, isLink := links[rel]
		isObject := strings.HasPrefix(d.Name(), "nvme") && strings.ContainsAny(d.Name(), "0123456789")
		if isObject && want[rel] == nil && !isLink {
			stale = append(stale, path)
			if d.IsDir() {
				return filepath.SkipDir
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, path := range stale {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	for _, dir := range sortedKeys(want) { // parents first
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
		for name, value := range want[dir] {
			if err := replace(filepath.Join(root, dir, name), value+"\n"); err != nil {
				return err
			}
		}
	}
	for _, link := range sortedKeys(links) {
		path := filepath.Join(root, link)
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		if err := os.Symlink(links[link], path); err != nil {
			return err
		}
	}
	return nil
}

// replace changes a file in one step, and only when it differs.
func replace(path, text string) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	aside := filepath.Join(filepath.Dir(path), ".new")
	if err := os.WriteFile(aside, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(aside, path)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
