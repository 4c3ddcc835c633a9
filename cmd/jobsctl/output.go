package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// outputFormat is the format of the output, as a flag value.
type outputFormat string

const (
	tableOutput outputFormat = "table"
	wideOutput  outputFormat = "wide" // a table with all columns, whatever the terminal's width
	jsonOutput  outputFormat = "json" // one object per line
	yamlOutput  outputFormat = "yaml" // one document per object
)

var outputs = []string{string(tableOutput), string(wideOutput), string(jsonOutput), string(yamlOutput)}

func (o *outputFormat) String() string { return string(*o) }
func (o *outputFormat) Type() string   { return "format" }

func (o *outputFormat) Set(name string) error {
	if !slices.Contains(outputs, name) {
		return fmt.Errorf("use one of %s", strings.Join(outputs, ", "))
	}
	*o = outputFormat(name)
	return nil
}

// outputFlags adds -o, and --json, its short form for scripts.
func (a *app) outputFlags(root *cobra.Command, flags *pflag.FlagSet) {
	a.output = tableOutput
	flags.VarP(&a.output, "output", "o", "table, wide, json (an object a line) or yaml")
	flags.BoolFunc("json", "the same as -o json", func(string) error { return a.output.Set(string(jsonOutput)) })
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// structured reports whether the output is objects, not text for people.
func (a *app) structured() bool { return a.output == jsonOutput || a.output == yamlOutput }

// say writes a line for people; structured output leaves it out.
func (a *app) say(format string, args ...any) {
	if !a.structured() {
		fmt.Fprintf(a.out, format+"\n", args...)
	}
}

// object writes v as a line of JSON, or as a document of YAML with the same names. It
// escapes characters that control a terminal or the direction of text, although both
// formats allow them.
func (a *app) object(v any) error {
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
	_, err = a.out.Write(append(escaped(text, func(b *bytes.Buffer, r rune) {
		for _, half := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(b, `\u%04x`, half)
		}
	}), '\n'))
	return err
}

// escaped returns text with its harmful characters escaped.
func escaped(text []byte, escape func(*bytes.Buffer, rune)) []byte {
	var b bytes.Buffer
	for _, r := range string(text) {
		if harmful(r) {
			escape(&b, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

func harmful(r rune) bool {
	return r > unicode.MaxASCII && (!unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r))
}

// yamlOf converts JSON to YAML in block style. It parses the JSON as YAML, with the
// characters escaped that only YAML takes for line ends.
func yamlOf(text []byte) ([]byte, error) {
	escape := func(b *bytes.Buffer, r rune) { fmt.Fprintf(b, `\U%08x`, r) }
	var document yaml.Node
	if err := yaml.Unmarshal(escaped(text, escape), &document); err != nil {
		return nil, err
	}
	restyle(&document)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&document); err != nil {
		return nil, err
	}
	return escaped(b.Bytes(), escape), nil
}

// restyle sets a node and its parts to block style. Only strings with harmful
// characters must be quoted, for their escapes.
func restyle(n *yaml.Node) {
	n.Style = 0
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && strings.ContainsFunc(n.Value, harmful) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, part := range n.Content {
		restyle(part)
	}
}
