package conformance_test

import (
	"context"

	"github.com/seed81422ce9/jobs/broker"
)

var examineMutants = []mutant{
	{"an examination finds what is not wrong", "Examine/ASoundStoreHasNoFindings", always(func(p *patched) {
		examine := p.examine
		p.examine = func(ctx context.Context, r broker.ExamineRequest) (broker.Examined, error) {
			got, err := examine(ctx, r)
			got.Findings = append(got.Findings, broker.Finding{FindingKind: broker.KnownFindings().Of("count-differs"), Queue: r.Queue})
			return got, err
		}
	})},
	{"an examination begins anew with each step", "Examine/ASoundStoreHasNoFindings", always(func(p *patched) {
		examine := p.examine
		p.examine = func(ctx context.Context, r broker.ExamineRequest) (broker.Examined, error) {
			r.Cursor = ""
			return examine(ctx, r)
		}
	})},
	{"an examination takes any bound", "Examine/BadRequestsAreRefused", always(func(p *patched) {
		examine := p.examine
		p.examine = func(ctx context.Context, r broker.ExamineRequest) (broker.Examined, error) {
			r.Limit = min(r.Limit, broker.MaxExamine)
			return examine(ctx, r)
		}
	})},
}
