-- name: insert_publication
-- One per action: the unique key upholds what the record promises.
insert into publications (action_id, run_id, resource, title, note, digest, objects, published_at)
values (:action_id, :run_id, :resource, :title, :note, :digest, :objects, :now_at)
returning publication_id

-- name: publications_of_resource
select * from publications where resource = :resource order by publication_id
