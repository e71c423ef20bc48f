package nvmeoftest_test

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest"
)

const (
	nqn  = "nqn.2026-02.io.distort:volume-a"
	host = "nqn.2026-01.io.distort:host-a"
	subA = "subsystems/" + nqn
	ns1  = subA + "/namespaces/1"
)

// fact is one row measured on Linux 6.12.95: what an operation answers after a
// setup.
type fact struct {
	name  string
	setup []string
	do    string
	want  error
	opts  []nvmeoftest.Option
}

// Scripts are lines "mkdir P", "rmdir P", "write P VALUE", "link TARGET LINK",
// "unlink P".
var (
	newSub  = []string{"mkdir " + subA}
	newNS   = append(clone(newSub), "mkdir "+ns1)
	pathed  = append(clone(newNS), "write "+ns1+"/device_path /dev/a")
	enabled = append(clone(pathed), "write "+ns1+"/enable 1")
	newHost = append(clone(newSub), "mkdir hosts/"+host)
	linked  = append(clone(newHost), "link hosts/"+host+" "+subA+"/allowed_hosts/"+host)
	tcp     = append(clone(newSub), port("1", "tcp", "ipv4", "10.0.0.1", "4420")...)
	serving = append(clone(tcp), "link "+subA+" ports/1/subsystems/"+nqn)
)

func clone(s []string) []string { return append([]string(nil), s...) }

func port(id, trtype, adrfam, traddr, trsvcid string) []string {
	p := "ports/" + id
	return []string{"mkdir " + p, "write " + p + "/addr_trtype " + trtype, "write " + p + "/addr_adrfam " + adrfam,
		"write " + p + "/addr_traddr " + traddr, "write " + p + "/addr_trsvcid " + trsvcid}
}

func and(base []string, more ...string) []string { return append(clone(base), more...) }

func facts() []fact {
	linkPort := "link " + subA + " ports/1/subsystems/" + nqn
	long := "nqn.2026-02.io.distort:" + strings.Repeat("x", 224)
	return []fact{
		{"a new subsystem has attr_allow_any_host, and 0 can be written", newSub, "write " + subA + "/attr_allow_any_host 0", nil, nil},
		{"device_path while enabled", enabled, "write " + ns1 + "/device_path /dev/b", syscall.EBUSY, nil},
		{"device_uuid while enabled", enabled, "write " + ns1 + "/device_uuid 11111111-0000-4000-8000-000000000001", syscall.EBUSY, nil},
		{"bad uuid text", newNS, "write " + ns1 + "/device_uuid nonsense", syscall.EINVAL, nil},
		{"empty device_path", newNS, "write " + ns1 + "/device_path ", syscall.EINVAL, nil},
		{"trailing newline", newNS, "write " + ns1 + "/device_path /dev/a\n", nil, nil},
		{"enable, path missing", and(newNS, "write "+ns1+"/device_path /dev/absent"), "write " + ns1 + "/enable 1", syscall.ENOENT, nil},
		{"enable, path is a directory", and(newNS, "write "+ns1+"/device_path /dev"), "write " + ns1 + "/enable 1", syscall.EISDIR, nil},
		{"enable, no path set", newNS, "write " + ns1 + "/enable 1", syscall.EINVAL, nil},
		{"enable, regular file", and(newNS, "write "+ns1+"/device_path /file"), "write " + ns1 + "/enable 1", nil, nil},
		{"enable twice", enabled, "write " + ns1 + "/enable 1", nil, nil},
		{"same device in two subsystems", and(enabled, "mkdir subsystems/nqn.b", "mkdir subsystems/nqn.b/namespaces/1",
			"write subsystems/nqn.b/namespaces/1/device_path /dev/a"), "write subsystems/nqn.b/namespaces/1/enable 1", nil, nil},
		{"rmdir an enabled namespace", enabled, "rmdir " + ns1, nil, nil},
		{"revalidate_size while enabled", enabled, "write " + ns1 + "/revalidate_size 1", nil, nil},
		{"link a host while any host is allowed", and(newHost, "write "+subA+"/attr_allow_any_host 1"),
			"link hosts/" + host + " " + subA + "/allowed_hosts/" + host, syscall.EINVAL, nil},
		{"allow any host while hosts are linked", linked, "write " + subA + "/attr_allow_any_host 1", syscall.EINVAL, nil},
		{"link the same host twice", linked, "link hosts/" + host + " " + subA + "/allowed_hosts/" + host, syscall.EEXIST, nil},
		{"link the same host under another name", linked, "link hosts/" + host + " " + subA + "/allowed_hosts/other", syscall.EEXIST, nil},
		{"rmdir a linked host", linked, "rmdir hosts/" + host, syscall.EBUSY, nil},
		{"rmdir a subsystem that a port serves", serving, "rmdir " + subA, syscall.EBUSY, nil},
		{"rmdir a subsystem with namespaces", newNS, "rmdir " + subA, syscall.ENOTEMPTY, nil},
		{"rmdir a subsystem with host links", linked, "rmdir " + subA, syscall.ENOTEMPTY, nil},
		{"rmdir a port with links", serving, "rmdir ports/1", syscall.ENOTEMPTY, nil},
		{"change addr_traddr of an enabled port", serving, "write ports/1/addr_traddr 10.0.0.2", syscall.EACCES, nil},
		{"change addr_trsvcid of an enabled port", serving, "write ports/1/addr_trsvcid 4421", syscall.EACCES, nil},
		{"link to a port whose address is in use", and(append(serving, port("2", "tcp", "ipv4", "10.0.0.1", "4420")...), "mkdir subsystems/nqn.b"),
			"link subsystems/nqn.b ports/2/subsystems/b", syscall.EADDRINUSE, nil},
		{"link to a port whose address a wildcard holds", and(append(append(clone(newSub), port("1", "tcp", "ipv4", "0.0.0.0", "4420")...), port("2", "tcp", "ipv4", "10.0.0.1", "4420")...),
			linkPort), "link " + subA + " ports/2/subsystems/" + nqn, syscall.EADDRINUSE, nil},
		{"link to a tcp port whose address is not local", and(newSub, port("1", "tcp", "ipv4", "10.9.9.9", "4420")...), linkPort, syscall.EADDRNOTAVAIL, nil},
		{"link to an rdma port whose address is not local", and(newSub, port("1", "rdma", "ipv4", "10.9.9.9", "4420")...), linkPort, syscall.EADDRNOTAVAIL, nil},
		{"link to an rdma port without an RDMA device", and(newSub, port("1", "rdma", "ipv4", "10.0.0.1", "4420")...), linkPort, syscall.ENODEV,
			[]nvmeoftest.Option{nvmeoftest.WithoutRDMADevice()}},
		{"link to a port without trtype", and(newSub, "mkdir ports/1"), linkPort, syscall.EINVAL, nil},
		{"link to a port, transport module missing", tcp, linkPort, syscall.EINVAL, []nvmeoftest.Option{nvmeoftest.WithTransports(nvmeof.RDMA)}},
		{"link to a port, IPv4 text with family ipv6", and(newSub, port("1", "tcp", "ipv6", "10.0.0.1", "4420")...), linkPort, syscall.EINVAL, nil},
		{"link name differs from the NQN", tcp, "link " + subA + " ports/1/subsystems/other", nil, nil},
		{"link the same subsystem to a port again", serving, "link " + subA + " ports/1/subsystems/other", syscall.EEXIST, nil},
		{"port id 0", nil, "mkdir ports/0", nil, nil},
		{"port id 65536", nil, "mkdir ports/65536", syscall.EINVAL, nil},
		{"port id abc", nil, "mkdir ports/abc", syscall.EINVAL, nil},
		{"nsid 0", newSub, "mkdir " + subA + "/namespaces/0", syscall.EINVAL, nil},
		{"nsid 0xffffffff", newSub, "mkdir " + subA + "/namespaces/4294967295", syscall.EINVAL, nil},
		{"nsid 01", newSub, "mkdir " + subA + "/namespaces/01", nil, nil},
		{"subsystem name of more than 223 bytes", nil, "mkdir subsystems/" + long[:240], nil, nil},
		{"subsystem name that is no NQN", nil, "mkdir subsystems/anything", nil, nil},
		{"subsystem named as discovery", nil, "mkdir subsystems/" + nvmeof.DiscoveryNQN, syscall.EINVAL, nil},
		{"serial of more than 20 bytes", newSub, "write " + subA + "/attr_serial " + strings.Repeat("S", 21), syscall.EINVAL, nil},
		{"attr_qid_max with its own value", newSub, "write " + subA + "/attr_qid_max 128", nil, nil},
		{"write to an attribute that does not exist", newSub, "write " + subA + "/attr_nothing 1", syscall.ENOENT, nil},
	}
}

// TestModelAgreesWithMeasuredFacts replays the measured table row by row.
func TestModelAgreesWithMeasuredFacts(t *testing.T) {
	agree := 0
	rows := facts()
	for _, f := range rows {
		t.Run(f.name, func(t *testing.T) {
			k := nvmeoftest.NewKernel(append([]nvmeoftest.Option{nvmeoftest.WithDevices("/dev/a", "/dev/b"),
				nvmeoftest.WithAddresses(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1"))}, f.opts...)...)
			k.AddDirectory("/dev")
			k.AddFile("/file")
			for _, line := range f.setup {
				if err := run(k, line); err != nil {
					t.Fatalf("setup %q: %v", line, err)
				}
			}
			if err := run(k, f.do); !errors.Is(err, f.want) {
				t.Fatalf("%s: %v, measured %v", f.do, err, f.want)
			}
			agree++
		})
	}
	t.Logf("%d of %d measured rows agree", agree, len(rows))
	if agree != len(rows) {
		t.Errorf("%d rows do not agree", len(rows)-agree)
	}
}

func run(k *nvmeoftest.Kernel, line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	p, value, _ := strings.Cut(rest, " ")
	switch verb {
	case "mkdir":
		return k.Mkdir(p)
	case "rmdir":
		return k.Rmdir(p)
	case "write":
		return k.WriteFile(p, []byte(value))
	case "link":
		return k.Symlink(p, value)
	case "unlink":
		return k.Remove(p)
	}
	return errors.New("unknown verb " + verb)
}
