-- due.sql: whether job j in state o (scheduled or retry) is due in share s, above its scan floor.
-- Params: @now µs|null, @due_at due times and @due_turns seqs of the scan floors, one for each share
j.queue = s.queue and j.state = o.state and (j.run_at, j.seq) > ((@due_at::bigint[])[s.ord::int], (@due_turns::bigint[])[s.ord::int])
      and j.run_at <= {{now}}
