// Sbom writes what a program was built from: a bill of materials in the form of
// SPDX 2.3, made of what the Go linker put into the program. The same program, name
// and time give the same bytes.
//
//	go run ./internal/sbom -version v0.1.0 -time 2026-01-02T03:04:05Z dist/jobsctl-linux-amd64
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

type document struct {
	Version      string         `json:"spdxVersion"`
	License      string         `json:"dataLicense"`
	ID           string         `json:"SPDXID"`
	Name         string         `json:"name"`
	Namespace    string         `json:"documentNamespace"`
	Creation     creation       `json:"creationInfo"`
	Packages     []part         `json:"packages"`
	Dependencies []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type part struct {
	Name       string      `json:"name"`
	ID         string      `json:"SPDXID"`
	Version    string      `json:"versionInfo"`
	Location   string      `json:"downloadLocation"`
	Analyzed   bool        `json:"filesAnalyzed"`
	Checksums  []checksum  `json:"checksums,omitempty"`
	References []reference `json:"externalRefs"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

func main() {
	version := flag.String("version", "devel", "of the program")
	created := flag.String("time", "1970-01-01T00:00:00Z", "of the source, in UTC")
	flag.Parse()
	if err := write(os.Stdout, flag.Arg(0), *version, *created); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(out io.Writer, file, version, created string) error {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	name, digest := filepath.Base(file), hex.EncodeToString(sum[:])
	d := document{Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		Namespace: "https://" + info.Main.Path + "/sbom/" + name + "-" + digest,
		Creation:  creation{created, []string{"Tool: " + info.Main.Path + "/internal/sbom"}}}
	d.add(info.Main.Path, version, "DESCRIBES", d.ID)
	program := &d.Packages[0]
	program.Checksums = []checksum{{"SHA256", digest}}
	d.add("stdlib", info.GoVersion, "DEPENDS_ON", program.ID)
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		d.add(m.Path, m.Version, "DEPENDS_ON", program.ID)
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

// add adds a module and the relationship of the element from with it.
func (d *document) add(path, version, relation, from string) {
	id := fmt.Sprintf("SPDXRef-%d", len(d.Packages))
	d.Packages = append(d.Packages, part{Name: path, ID: id, Version: version, Location: "NOASSERTION",
		References: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}}})
	d.Dependencies = append(d.Dependencies, relationship{from, relation, id})
}
