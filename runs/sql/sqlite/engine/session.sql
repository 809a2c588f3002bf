-- Who works on the file.

-- name: newest_holders
select pid, process_started from holders where host = :host order by holder_id desc limit 64;
