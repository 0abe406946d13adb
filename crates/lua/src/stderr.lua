-- Sends everything that the script prints to standard error.

io.stdout = io.stderr
io.output(io.stderr)

function print(...)
   local texts = {}
   for i = 1, select("#", ...) do texts[i] = tostring((select(i, ...))) end
   io.stderr:write(table.concat(texts, "\t"), "\n")
end
