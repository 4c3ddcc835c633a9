-- bucket.sql: computes broker.Bucket.Free for b, which has at, used, jobs, per, burst and now. Without a rate it returns no row.
-- Params: none
select case when v.full_again then b.now else v.at end as at, case when v.full_again then -b.burst - 1 else v.used end as used,
       case when v.full_again then b.burst + 1 when v.free > 0 then v.free else 0 end as free,
       case when not v.full_again and v.free <= 0 then v.at + ((v.used + 1) * b.per + b.jobs - 1) / b.jobs end as next
from (
  select s.*, s.full_before or s.free >= b.burst + 1 as full_again
  from (
    select r.at, r.used, r.full_before,
           case when not r.full_before then greatest(b.now - r.at, 0) * b.jobs / b.per - r.used end as free
    from (
      select m.full_before, case when m.set_back then b.now else m.at end as at,
             case when m.set_back then least(m.used, -1) else m.used end as used
      from (
        select n.at, n.used, n.at - b.now > b.per as set_back, (n.at = 0 and n.used = 0)
          or b.now - n.at >= (b.burst + 1 + greatest(n.used, -b.burst - 1)) * b.per / b.jobs + 1 + b.per as full_before
        from (
          select case when c.used >= b.jobs then b.at + c.used / b.jobs * b.per else b.at end as at,
                 case when c.used >= b.jobs then c.used % b.jobs else c.used end as used
          from (select least(b.used, b.jobs + b.burst + 1) as used where b.jobs > 0 offset 0) c
          offset 0) n offset 0) m offset 0) r offset 0) s offset 0) v
