package media

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/distort-io/distort/modules/agent/internal/command"
)

// Exit codes of blkid -p (blkid(8)).
const (
	blkidNothing   = 2 // no signature; also a device that cannot be opened
	blkidAmbiguous = 8 // signatures that exclude each other
)

// lowLevel is what blkid's low-level probe says of a whole drive.
type lowLevel struct {
	ambiguous bool
	fsType    string // TYPE: filesystem, raid or LVM member
	uuid      string
	label     string
	ptType    string // PTTYPE: gpt, dos
	ptUUID    string
}

func (p *Prober) blkid(ctx context.Context, path string) (lowLevel, error) {
	res, err := p.run.Run(ctx, command.New("blkid", "-p", "-o", "export", "--", path))
	if code, ok := command.ExitCode(err); ok {
		switch code {
		case blkidNothing:
			return lowLevel{}, nil
		case blkidAmbiguous:
			return lowLevel{ambiguous: true}, nil
		}
	}
	if err != nil {
		return lowLevel{}, err
	}
	return parseExport(string(res.Stdout)), nil
}

// parseExport reads blkid's KEY=value lines. Values have backslash escapes,
// which matter to nobody who compares UUIDs and types.
func parseExport(text string) lowLevel {
	var out lowLevel
	for _, line := range strings.Split(text, "\n") {
		key, value, _ := strings.Cut(line, "=")
		switch key {
		case "TYPE":
			out.fsType = value
		case "UUID":
			out.uuid = value
		case "LABEL":
			out.label = value
		case "PTTYPE":
			out.ptType = value
		case "PTUUID":
			out.ptUUID = value
		}
	}
	return out
}

func (p *Prober) wipefs(ctx context.Context, path string) ([]Signature, error) {
	// Without -a wipefs only lists.
	res, err := p.run.Run(ctx, command.New("wipefs", "-J", "--", path))
	if err != nil {
		return nil, err
	}
	sigs, err := parseWipefs(res.Stdout)
	if err != nil {
		return nil, fmt.Errorf("wipefs -J %s: %w", path, err)
	}
	return sigs, nil
}

// parseWipefs reads wipefs -J of util-linux 2.38 and later. An older version
// prints nothing for a device without signatures, which is not accepted: nothing
// read is not nothing there.
func parseWipefs(text []byte) ([]Signature, error) {
	var doc struct {
		Signatures *[]struct {
			Offset string  `json:"offset"`
			Type   string  `json:"type"`
			UUID   *string `json:"uuid"`
			Label  *string `json:"label"`
		} `json:"signatures"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("output %.80q is not JSON: %w", text, err)
	}
	if doc.Signatures == nil {
		return nil, fmt.Errorf("output %.80q has no list of signatures", text)
	}
	var out []Signature
	for _, s := range *doc.Signatures {
		offset, err := strconv.ParseInt(strings.TrimPrefix(s.Offset, "0x"), 16, 64)
		if err != nil || s.Type == "" {
			return nil, fmt.Errorf("signature of type %q at offset %q cannot be read", s.Type, s.Offset)
		}
		sig := Signature{Type: s.Type, Offset: offset}
		if s.UUID != nil {
			sig.UUID = *s.UUID
		}
		if s.Label != nil {
			sig.Label = *s.Label
		}
		out = append(out, sig)
	}
	return out, nil
}
