package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/seed81422ce9/jobs/internal/readable"
)

// sink remembers the first error of a write.
type sink struct {
	io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.Writer.Write(p)
	s.err = cmp.Or(s.err, err)
	return n, err
}

type outputFormat string

const (
	tableOutput outputFormat = "table"
	wideOutput  outputFormat = "wide" // a table with all columns, whatever the terminal's width
	jsonOutput  outputFormat = "json" // one object per line
	yamlOutput  outputFormat = "yaml" // one document per object
)

var outputs = []outputFormat{tableOutput, wideOutput, jsonOutput, yamlOutput}

func (o *outputFormat) String() string { return string(*o) }
func (o *outputFormat) Type() string   { return "format" }

func (o *outputFormat) Set(name string) error {
	if !slices.Contains(outputs, outputFormat(name)) {
		return fmt.Errorf("use one of %s", joined(outputs))
	}
	*o = outputFormat(name)
	return nil
}

// outputFlags adds -o, and --json, its short form for scripts.
func (a *app) outputFlags(root *cobra.Command, flags *pflag.FlagSet) {
	a.output = tableOutput
	flags.VarP(&a.output, "output", "o", "table, wide, json (an object a line) or yaml")
	flags.BoolFunc("json", "the same as -o json", func(string) error { return a.output.Set(string(jsonOutput)) })
	completeWith(root, "output", outputs)
}

// structured reports whether the output is objects, not text for people.
func (a *app) structured() bool { return a.output == jsonOutput || a.output == yamlOutput }

// say writes a line for people; structured output leaves it out.
func (a *app) say(format string, args ...any) {
	if !a.structured() {
		fmt.Fprintf(a.out, format+"\n", args...)
	}
}

// answer writes v, or a line for people.
func (a *app) answer(v any, format string, args ...any) error {
	if a.structured() {
		return a.object(v)
	}
	_, err := fmt.Fprintf(a.out, format+"\n", args...)
	return err
}

// object writes v as a line of JSON, or as a document of YAML with the same names; output for people leaves it out. It
// escapes characters that control a terminal or the direction of text, although both formats allow them.
func (a *app) object(v any) error {
	if !a.structured() {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if a.output == yamlOutput {
		if text, err = yamlOf(text); err != nil {
			return err
		}
		if a.documents++; a.documents > 1 {
			text = append([]byte("---\n"), text...)
		}
		_, err = a.out.Write(text)
		return err
	}
	_, err = a.out.Write(append(readable.AppendJSON(nil, text, readable.Harmful), '\n'))
	return err
}

// yamlOf converts JSON to YAML in block style. It does not parse the JSON as YAML, which
// lacks some of JSON's escapes, and takes no key of more than 1024 characters on one line.
func yamlOf(text []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // a number keeps all of its digits
	document, err := nodeOf(d, 1)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(document); err != nil {
		return nil, err
	}
	var safe []byte
	for _, r := range b.String() {
		if readable.Harmful(r) {
			safe = fmt.Appendf(safe, `\U%08x`, r)
		} else {
			safe = utf8.AppendRune(safe, r)
		}
	}
	return safe, nil
}

// nodeOf returns the next value of d, at a level. Values that are very deep are written on one line: otherwise each
// would be indented by all levels around it. The encoder quotes strings that need it, except those with harmful
// characters, which need escapes, and two others.
func nodeOf(d *json.Decoder, level int) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}
	switch v := token.(type) {
	case json.Delim:
		n.Kind, n.Value = yaml.SequenceNode, ""
		if v == '{' {
			n.Kind = yaml.MappingNode
		}
		if level > readable.MaxLevels {
			n.Style = yaml.FlowStyle
		}
		for d.More() { // in an object, keys and values take turns
			part, err := nodeOf(d, level+1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, part)
		}
		_, err = d.Token() // the end
	case string:
		n.Tag, n.Value = "!!str", v
		if strings.ContainsFunc(v, readable.Harmful) || v == "<<" || v == "=" { // YAML 1.1 has a meaning for these two
			n.Style = yaml.DoubleQuotedStyle
		}
	case json.Number:
		n.Value = v.String()
	case bool:
		n.Value = strconv.FormatBool(v)
	}
	return n, err
}
