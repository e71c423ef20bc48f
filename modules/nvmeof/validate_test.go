package nvmeof_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/distort-io/distort/modules/nvmeof"
)

func valid() nvmeof.Subsystem {
	a, b := nvmeof.DeriveUUID("a"), nvmeof.DeriveUUID("b")
	return nvmeof.Subsystem{
		NQN: "nqn.2026-02.io.distort:volume-a", Serial: "DISTORT1", Model: "DISTORT volume",
		Namespaces: []nvmeof.Namespace{
			{NSID: 1, DevicePath: "/dev/nvme1n1p1", UUID: a, NGUID: a.NGUID()},
			{NSID: 2, DevicePath: "/dev/zvol/tank/a b", UUID: b, NGUID: b.NGUID()},
		},
		AllowedHosts: []string{"nqn.2026-01.io.distort:host-a", "nqn.2026-01.io.distort:host-b"},
		Listeners:    []nvmeof.Listener{mustListener("tcp://10.0.0.1:4420"), mustListener("rdma://[fd00::1]:4421")},
	}
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*nvmeof.Subsystem)
		field  string
		value  string
		rule   string
	}{
		"complete":       {change: func(*nvmeof.Subsystem) {}},
		"no model":       {change: func(s *nvmeof.Subsystem) { s.Model = "" }},
		"nothing inside": {change: func(s *nvmeof.Subsystem) { s.Namespaces, s.AllowedHosts, s.Listeners = nil, nil, nil }},
		"highest nsid":   {change: func(s *nvmeof.Subsystem) { s.Namespaces[0].NSID = 0xfffffffe }},
		"serial of 20":   {change: func(s *nvmeof.Subsystem) { s.Serial = strings.Repeat("S", 20) }},

		"nqn":                  {func(s *nvmeof.Subsystem) { s.NQN = "x" }, "nqn", "x", "begin with"},
		"discovery":            {func(s *nvmeof.Subsystem) { s.NQN = nvmeof.DiscoveryNQN }, "nqn", nvmeof.DiscoveryNQN, "discovery"},
		"no serial":            {func(s *nvmeof.Subsystem) { s.Serial = "" }, "serial", "", "not be empty"},
		"serial of 21":         {func(s *nvmeof.Subsystem) { s.Serial = strings.Repeat("S", 21) }, "serial", strings.Repeat("S", 21), "at most 20"},
		"serial not printable": {func(s *nvmeof.Subsystem) { s.Serial = "a\tb" }, "serial", "a\tb", "printable"},
		"serial not ASCII":     {func(s *nvmeof.Subsystem) { s.Serial = "\u00e9" }, "serial", "\u00e9", "printable"},
		"serial with a space":  {func(s *nvmeof.Subsystem) { s.Serial = "a " }, "serial", "a ", "space"},
		"model of 41":          {func(s *nvmeof.Subsystem) { s.Model = strings.Repeat("M", 41) }, "model", strings.Repeat("M", 41), "at most 40"},
		"nsid 0":               {func(s *nvmeof.Subsystem) { s.Namespaces[0].NSID = 0 }, "namespaces[0].nsid", "0", "from 1"},
		"nsid of all":          {func(s *nvmeof.Subsystem) { s.Namespaces[1].NSID = 0xffffffff }, "namespaces[1].nsid", "4294967295", "from 1"},
		"nsid twice":           {func(s *nvmeof.Subsystem) { s.Namespaces[1].NSID = 1 }, "namespaces[1].nsid", "1", "equal to namespaces[0].nsid"},
		"path empty":           {func(s *nvmeof.Subsystem) { s.Namespaces[0].DevicePath = "" }, "namespaces[0].devicePath", "", "not be empty"},
		"path relative":        {func(s *nvmeof.Subsystem) { s.Namespaces[0].DevicePath = "dev/a" }, "namespaces[0].devicePath", "dev/a", "absolute"},
		"path root":            {func(s *nvmeof.Subsystem) { s.Namespaces[0].DevicePath = "/" }, "namespaces[0].devicePath", "/", "root"},
		"path not canonical":   {func(s *nvmeof.Subsystem) { s.Namespaces[0].DevicePath = "/dev/../etc" }, "namespaces[0].devicePath", "/dev/../etc", "canonical"},
		"path with slash":      {func(s *nvmeof.Subsystem) { s.Namespaces[0].DevicePath = "/dev/a/" }, "namespaces[0].devicePath", "/dev/a/", "canonical"},
		"path with newline":    {func(s *nvmeof.Subsystem) { s.Namespaces[0].DevicePath = "/dev/a\nb" }, "namespaces[0].devicePath", "/dev/a\nb", "control"},
		"path with NUL":        {func(s *nvmeof.Subsystem) { s.Namespaces[0].DevicePath = "/dev/a\x00" }, "namespaces[0].devicePath", "/dev/a\x00", "control"},
		"path ends with space": {func(s *nvmeof.Subsystem) { s.Namespaces[0].DevicePath = "/dev/a " }, "namespaces[0].devicePath", "/dev/a ", "space"},
		"path too long":        {func(s *nvmeof.Subsystem) { s.Namespaces[0].DevicePath = "/" + strings.Repeat("a", 4095) }, "namespaces[0].devicePath", "/" + strings.Repeat("a", 4095), "at most 4095"},
		"path twice":           {func(s *nvmeof.Subsystem) { s.Namespaces[1].DevicePath = "/dev/nvme1n1p1" }, "namespaces[1].devicePath", "/dev/nvme1n1p1", "unique"},
		"uuid zero":            {func(s *nvmeof.Subsystem) { s.Namespaces[0].UUID = nvmeof.UUID{} }, "namespaces[0].uuid", "00000000-0000-0000-0000-000000000000", "zero"},
		"uuid twice":           {func(s *nvmeof.Subsystem) { s.Namespaces[1].UUID = s.Namespaces[0].UUID }, "namespaces[1].uuid", nvmeof.DeriveUUID("a").String(), "unique"},
		"nguid zero":           {func(s *nvmeof.Subsystem) { s.Namespaces[0].NGUID = nvmeof.NGUID{} }, "namespaces[0].nguid", strings.Repeat("0", 32), "zero"},
		"nguid twice":          {func(s *nvmeof.Subsystem) { s.Namespaces[1].NGUID = s.Namespaces[0].NGUID }, "namespaces[1].nguid", nvmeof.DeriveUUID("a").NGUID().String(), "unique"},
		"host":                 {func(s *nvmeof.Subsystem) { s.AllowedHosts[1] = "*" }, "allowedHosts[1]", "*", "begin with"},
		"host twice":           {func(s *nvmeof.Subsystem) { s.AllowedHosts[1] = s.AllowedHosts[0] }, "allowedHosts[1]", "nqn.2026-01.io.distort:host-a", "unique"},
		"listener zero":        {func(s *nvmeof.Subsystem) { s.Listeners[0] = nvmeof.Listener{Transport: nvmeof.TCP} }, "listeners[0]", "tcp://invalid AddrPort", "must be set"},
		"listener twice":       {func(s *nvmeof.Subsystem) { s.Listeners[1] = s.Listeners[0] }, "listeners[1]", "tcp://10.0.0.1:4420", "unique"},
	} {
		t.Run(name, func(t *testing.T) {
			s := valid()
			tc.change(&s)
			expectRule(t, s.Validate(), tc.field, tc.value, tc.rule)
		})
	}
}

func TestValidateTellsAllViolations(t *testing.T) {
	s := valid()
	s.Serial, s.AllowedHosts[0], s.Namespaces[0].NSID = "", "*", 0
	err := s.Validate()
	for _, field := range []string{"serial", "allowedHosts[0]", "namespaces[0].nsid"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not mentioned: %v", field, err)
		}
	}
}

func TestValidateLimitsNamespaces(t *testing.T) {
	s := valid()
	s.Namespaces = make([]nvmeof.Namespace, 1025)
	var found *nvmeof.FieldError
	if err := s.Validate(); !errors.As(err, &found) || found.Field != "namespaces" || found.Value != "1025" {
		t.Errorf("error %v", found)
	}
}

func TestParseDevicePath(t *testing.T) {
	if got, err := nvmeof.ParseDevicePath("/dev/sda"); err != nil || got != "/dev/sda" {
		t.Errorf("%q, %v", got, err)
	}
	got, err := nvmeof.ParseDevicePath("sda")
	expectRule(t, err, "devicePath", "sda", "absolute")
	if got != "" {
		t.Errorf("refused, but returned %q", got)
	}
}
