package fencemodel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/distort-io/distort/modules/api/identity"
)

// Actions are named "verb object". Those that idle does not list are what somebody
// still has to do.
const (
	step      = "agent goes on"
	deliver   = "agent's cache hears of the next event"
	run       = "agent runs "
	crash     = "agent dies "
	publish   = "csi publishes to "
	unpublish = "csi unpublishes from "
	// The CSI controller dies, and its request is still on its way.
	dieCreating  = "csi dies publishing to "
	dieDeleting  = "csi dies unpublishing from "
	connect      = "host connects: "
	send         = "host writes: "
	receive      = "target takes what is in the sockets of "
	complete     = "device answers"
	teardown     = "target tears ended controllers down"
	land         = "delayed request arrives: "
	beforeEffect = crash + "before the effect"
	afterEffect  = crash + "after the effect"
	meanwhile    = crash + "while the request is on its way"
	// What a reboot takes is all that a kernel holds, with whoever runs on it.
	rebootStorage = "storage node reboots"
	rebootHost    = "host reboots: "
	expire        = "target misses the keep-alive of "
)

// idle tells of actions that may be left undone for ever: faults, and hosts that
// want nothing more.
func idle(action string) bool {
	for _, begin := range []string{crash, connect, send, rebootHost, land, dieCreating, dieDeleting} {
		if strings.HasPrefix(action, begin) {
			return true
		}
	}
	return action == rebootStorage
}

// actions are what can happen next.
func (w *world) actions(snapshot []string) []string {
	var out []string
	add := func(enabled bool, action string) {
		if enabled {
			out = append(out, action)
		}
	}
	at := w.agent.at
	add(at != nil, step)
	quiet := at != nil && at.quiet
	add(w.left.crashes > 0 && (!quiet || w.left.quietly), beforeEffect)
	if quiet {
		return out
	}
	add(w.left.crashes > 0 && at != nil && at.request != nil, afterEffect)
	add(w.left.crashes > 0 && w.left.delays > 0 && at != nil && at.request != nil, meanwhile)
	add(w.left.storageReboots > 0, rebootStorage)
	for i := range w.delayed {
		add(true, land+strconv.Itoa(i))
	}
	add(len(w.api.events) > 0, deliver)
	for _, j := range []job{rebuild, attend} {
		add(at == nil && w.pending[j], run+string(j))
	}
	deletable, creatable := w.holder() != "" && w.api.attachment.DeletionTimestamp == nil, w.holder() == "" && len(w.left.publishes) > 0
	add(deletable, unpublish+w.holder())
	add(creatable, publish+w.next())
	add(deletable && w.left.csiCrashes > 0, dieDeleting+w.holder())
	add(creatable && w.left.csiCrashes > 0, dieCreating+w.next())
	has := func(begin, contains string) bool {
		return slices.ContainsFunc(snapshot, func(line string) bool { return strings.HasPrefix(line, begin) && strings.Contains(line, contains) })
	}
	served := has("ports/1/subsystems/"+nqn+" ->", "")
	for _, node := range w.names {
		host := identity.HostNQN(node)
		live := w.hosts[node].ctrl != nil && w.hosts[node].ctrl.Live()
		add(!live && w.left.writes[node] > 0 && served && has("subsystems/"+nqn+"/allowed_hosts/"+host+" ->", ""), connect+node)
		add(live && w.left.writes[node] > 0, send+node)
		add(live && w.left.hostReboots > 0, rebootHost+node)
		add(w.hosts[node].abandoned() > 0, expire+node)
		add(has("connection of "+host+":", "socket [{"), receive+node)
	}
	add(has("in flight", ""), complete)
	add(has("connection of ", "ended true"), teardown)
	return out
}

// next is the node that has the volume next.
func (w *world) next() string {
	if len(w.left.publishes) == 0 {
		return ""
	}
	return w.left.publishes[0]
}

// do lets an action happen.
func (w *world) do(action string) {
	verb, node, _ := strings.Cut(action, ": ")
	if i := strings.LastIndexByte(action, ' '); node == "" && i >= 0 {
		node = action[i+1:]
	}
	switch {
	case action == step:
		w.agent.step(w.running)
	case action == deliver:
		w.deliver()
	case strings.HasPrefix(action, run):
		w.run(job(node))
	case action == beforeEffect:
		w.restart(diesBefore)
	case action == afterEffect:
		w.restart(diesAfter)
	case action == meanwhile:
		w.left.delays--
		w.restart(diesMeanwhile)
	case verb+": " == land:
		i, err := strconv.Atoi(node)
		must(err)
		// The answer goes to nobody.
		_ = w.delayed[i].request()
		w.delayed = slices.Delete(slices.Clone(w.delayed), i, i+1)
	case action == rebootStorage:
		w.rebootStorage()
	case verb+": " == rebootHost:
		w.left.hostReboots--
		h := w.hosts[node]
		h.lost, h.ctrl = append(h.lost, h.ctrl), nil
	case strings.HasPrefix(action, expire):
		for _, c := range w.hosts[node].lost {
			w.kernel.Disconnect(c)
		}
		w.hosts[node].lost = nil
	case strings.HasPrefix(action, publish):
		w.left.publishes = w.left.publishes[1:]
		must(w.api.create(newAttachment(node)))
	case strings.HasPrefix(action, unpublish):
		must(w.api.delete(w.api.attachment.UID))
	case strings.HasPrefix(action, dieCreating):
		w.left.csiCrashes--
		w.delay("create for "+node, func() error { return w.api.create(newAttachment(node)) })
	case strings.HasPrefix(action, dieDeleting):
		w.left.csiCrashes--
		uid := w.api.attachment.UID
		w.delay("delete "+number(uid), func() error { return w.api.delete(uid) })
	case verb+": " == connect:
		ctrl, err := w.kernel.Connect(identity.HostNQN(node), nqn, portal)
		if err != nil {
			w.breaks("%s is on the list and cannot connect: %v", node, err)
		}
		w.hosts[node].ctrl = ctrl
	case verb+": " == send:
		w.left.writes[node]--
		if err := w.hosts[node].ctrl.Send(1, fmt.Sprintf("%s life %d", node, w.hosts[node].life)); err != nil {
			w.breaks("%s is connected and cannot send: %v", node, err)
		}
	case strings.HasPrefix(action, receive):
		w.kernel.Receive(identity.HostNQN(node))
	case action == complete:
		w.kernel.Complete()
	case action == teardown:
		w.kernel.Teardown()
	default:
		panic("no such action: " + action)
	}
}

// delay keeps a request whose sender is dead.
func (w *world) delay(name string, request func() error) {
	w.delayed = append(w.delayed, effect{name: name, request: request})
}

// must is for requests that the API server cannot refuse.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// deliver shows the agent's cache the next event, and wakes the agent as the
// predicates of the controller do: not for its own status patches.
func (w *world) deliver() {
	before, after := w.cache, w.api.events[0]
	w.cache, w.api.events = after, w.api.events[1:]
	if before == nil || after == nil || before.UID != after.UID || before.Generation != after.Generation ||
		!slices.Equal(before.Finalizers, after.Finalizers) {
		w.pending[attend] = true
	}
}

// rebootStorage takes all that the storage node's kernel held: exports, connections
// and what was in flight. The medium keeps what had landed, which was looked at.
func (w *world) rebootStorage() {
	w.left.storageReboots--
	w.newKernel()
	for _, h := range w.hosts {
		h.ctrl, h.lost = nil, nil
	}
	w.replace(diesBefore)
}

// restart ends the agent and starts another one.
func (w *world) restart(v verdict) {
	w.left.crashes--
	w.replace(v)
}

// replace starts another agent, which lists what there is.
func (w *world) replace(v verdict) {
	w.agent.die(v)
	w.agent = w.boot()
	w.running = ""
	w.cache, w.api.events = nil, nil
	w.pending = map[job]bool{rebuild: true}
	if a := w.api.attachment; a != nil {
		w.cache = a.DeepCopy()
		w.pending[attend] = true
	}
}

// discard ends the goroutine of a world that nobody needs any more.
func (w *world) discard() {
	if w.agent.at != nil {
		w.agent.die(diesBefore)
	}
}
