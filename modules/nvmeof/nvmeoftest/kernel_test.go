package nvmeoftest_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest"
)

var listener = func() nvmeof.Listener {
	l, err := nvmeof.ParseListener("tcp://10.0.0.1:4420")
	if err != nil {
		panic(err)
	}
	return l
}()

// exported is a kernel that exports /dev/a to host, with host connected and one
// write in flight.
func exported(t *testing.T) (*nvmeoftest.Kernel, *nvmeoftest.Controller) {
	t.Helper()
	k := nvmeoftest.NewKernel(nvmeoftest.WithDevices("/dev/a"))
	for _, line := range append(append(clone(enabled), linked[1:]...), serving[1:]...) {
		must(t, run(k, line))
	}
	c, err := k.Connect(host, nqn, listener)
	must(t, err)
	must(t, c.Submit(1, "in flight"))
	return k, c
}

// TestWhatFences replays what was measured with a real initiator: which actions
// stop new writes, and which wait for those in flight.
func TestWhatFences(t *testing.T) {
	for name, tc := range map[string]struct {
		do        []string
		writes    bool // the host goes on writing
		landsLate bool // what was in flight lands after the action
		live      bool // the controller is live after the action
	}{
		"unlink the host only": {
			do:     []string{"unlink " + subA + "/allowed_hosts/" + host},
			writes: true, landsLate: true, live: true,
		},
		"unlink and end the controllers": {
			do:        []string{"unlink " + subA + "/allowed_hosts/" + host, "write " + subA + "/attr_qid_max 128"},
			landsLate: true,
		},
		"unlink and relink the port": {
			do: []string{"unlink " + subA + "/allowed_hosts/" + host, "unlink ports/1/subsystems/" + nqn,
				"link " + subA + " ports/1/subsystems/" + nqn},
			landsLate: true,
		},
		"end the controllers of a host that stays allowed": {
			do:     []string{"write " + subA + "/attr_qid_max 128"},
			writes: true, landsLate: true,
		},
		"disable the namespace": {
			do:   []string{"write " + ns1 + "/enable 0"},
			live: true,
		},
		"remove the enabled namespace": {
			do:   []string{"rmdir " + ns1},
			live: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, c := exported(t)
			for _, line := range tc.do {
				must(t, run(k, line))
			}
			if c.Live() != tc.live {
				t.Errorf("live %t, want %t", c.Live(), tc.live)
			}
			at := len(k.Writes("/dev/a"))
			k.Complete()
			if late := len(k.Writes("/dev/a")) > at; late != tc.landsLate {
				t.Errorf("in flight landed late %t, want %t", late, tc.landsLate)
			}
			if len(k.Writes("/dev/a")) != 1 {
				t.Errorf("the write in flight is lost: %v", k.Writes("/dev/a"))
			}
			if err := c.Write(1, "new"); (err == nil) != tc.writes {
				t.Errorf("new write: %v, want allowed %t", err, tc.writes)
			}
		})
	}
}

func TestControllersOfOtherSubsystemsSurvive(t *testing.T) {
	k, c := exported(t)
	must(t, run(k, "mkdir subsystems/nqn.b"))
	must(t, run(k, "write subsystems/nqn.b/attr_qid_max 128"))
	if !c.Live() {
		t.Error("attr_qid_max of another subsystem ended the controller")
	}
	if d := cmp.Diff([]string{host}, k.Hosts(nqn)); d != "" {
		t.Error(d)
	}
}

func TestConnectRefusals(t *testing.T) {
	k, _ := exported(t)
	elsewhere := listener
	elsewhere.Port++
	for name, tc := range map[string]struct {
		host, nqn string
		at        nvmeof.Listener
		want      error
	}{
		"nothing listens":          {host, nqn, elsewhere, nvmeoftest.ErrConnectRefused},
		"host is not on the list":  {host + "x", nqn, listener, nvmeoftest.ErrNotAllowed},
		"subsystem does not exist": {host, nqn + "x", listener, nvmeoftest.ErrNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := k.Connect(tc.host, tc.nqn, tc.at); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}

func TestDiscoveryLocksSerialAndModel(t *testing.T) {
	k, _ := exported(t)
	for _, attr := range []string{"attr_serial", "attr_model"} {
		if err := run(k, "write "+subA+"/"+attr+" NEW"); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v, want EINVAL", attr, err)
		}
	}
}

func TestNamespaceWithoutPinHasAnotherUUIDEachTime(t *testing.T) {
	k := nvmeoftest.NewKernel()
	seen := map[string]bool{}
	must(t, run(k, newSub[0]))
	for range 3 {
		must(t, run(k, newNS[1]))
		id, err := k.ReadFile(ns1 + "/device_uuid")
		must(t, err)
		seen[string(id)] = true
		must(t, run(k, "rmdir "+ns1))
	}
	if len(seen) != 3 {
		t.Errorf("uuids %v", seen)
	}
}

func TestFailAtFailsOneEffect(t *testing.T) {
	k := nvmeoftest.NewKernel()
	k.FailAt(2, syscall.EIO)
	for i, want := range []error{nil, syscall.EIO, nil} {
		if err := k.Mkdir(fmt.Sprintf("ports/%d", i)); !errors.Is(err, want) {
			t.Errorf("effect %d: %v, want %v", i+1, err, want)
		}
	}
	names, err := k.ReadDir("ports")
	must(t, err)
	if d := cmp.Diff([]string{"0", "2"}, names); d != "" {
		t.Error(d)
	}
}

func TestKillAtEndsTheCaller(t *testing.T) {
	k := nvmeoftest.NewKernel()
	k.KillAt(2)
	must(t, k.Mkdir("ports/0"))
	if err := k.Mkdir("ports/1"); !errors.Is(err, nvmeoftest.ErrKilled) {
		t.Errorf("second effect: %v", err)
	}
	if _, err := k.ReadDir("ports"); !errors.Is(err, nvmeoftest.ErrKilled) {
		t.Errorf("a dead caller reads: %v", err)
	}
	if !k.Revive() || k.Revive() {
		t.Error("Revive must tell once that the moment had come")
	}
	names, err := k.ReadDir("ports")
	must(t, err)
	if d := cmp.Diff([]string{"0"}, names); d != "" {
		t.Error(d)
	}
}

func TestOperationsOnTheWrongKindOfObject(t *testing.T) {
	k, _ := exported(t)
	_, readDir := k.ReadFile(subA)
	_, readOnlyWritable := k.ReadFile(ns1 + "/revalidate_size")
	_, readAbsent := k.ReadFile("subsystems/absent/enable")
	_, linkOfDir := k.Readlink(subA)
	for name, tc := range map[string]struct{ got, want error }{
		"read a directory":            {readDir, syscall.EISDIR},
		"read a write-only attribute": {readOnlyWritable, syscall.EACCES},
		"read below nothing":          {readAbsent, syscall.ENOENT},
		"readlink a directory":        {linkOfDir, syscall.EINVAL},
		"write a directory":           {k.WriteFile(subA, []byte("1")), syscall.EISDIR},
		"write a read-only attribute": {k.WriteFile("discovery_nqn", []byte("x")), syscall.EACCES},
		"mkdir what exists":           {k.Mkdir(subA), syscall.EEXIST},
		"mkdir where nothing is made": {k.Mkdir(subA + "/other"), syscall.EPERM},
		"mkdir below nothing":         {k.Mkdir("subsystems/absent/namespaces/1"), syscall.ENOENT},
		"rmdir what the kernel made":  {k.Rmdir(subA + "/namespaces"), syscall.EPERM},
		"rmdir an attribute":          {k.Rmdir(subA + "/attr_serial"), syscall.ENOTDIR},
		"rmdir nothing":               {k.Rmdir("ports/77"), syscall.ENOENT},
		"unlink a directory":          {k.Remove(subA), syscall.EPERM},
		"unlink nothing":              {k.Remove("ports/1/subsystems/absent"), syscall.ENOENT},
		"link what does not exist":    {k.Symlink("hosts/absent", subA+"/allowed_hosts/absent"), syscall.ENOENT},
		"link where no links are":     {k.Symlink("hosts/"+host, "hosts/x"), syscall.EPERM},
		"link a subsystem as a host":  {k.Symlink(subA, subA+"/allowed_hosts/x"), syscall.EINVAL},
		"link a host into a port":     {k.Symlink("hosts/"+host, "ports/1/subsystems/x"), syscall.EINVAL},
		"any host that is no bool":    {k.WriteFile(subA+"/attr_allow_any_host", []byte("maybe")), syscall.EINVAL},
		"qid_max beyond the queues":   {k.WriteFile(subA+"/attr_qid_max", []byte("129")), syscall.EINVAL},
		"trtype that does not exist":  {run(k, "mkdir ports/9"), nil},
		"trtype that is not a word":   {k.WriteFile("ports/9/addr_trtype", []byte("carrier pigeon")), syscall.EINVAL},
		"revalidate_size with 0":      {k.WriteFile(ns1+"/revalidate_size", []byte("0")), syscall.EINVAL},
	} {
		if !errors.Is(tc.got, tc.want) {
			t.Errorf("%s: %v, want %v", name, tc.got, tc.want)
		}
	}
}
