-- The functions of wrk's table that scripts may call or replace. The table already contains its
-- values and the functions that reach outside of Lua.

local wrk = wrk

local function names_host(headers)
   for name in pairs(headers) do
      if tostring(name):lower() == "host" then return true end
   end
   return false
end

-- Stores the addresses of the host that accept connections, from which threads can choose.
function wrk.resolve(host, service)
   local open = {}
   for _, address in ipairs(wrk.lookup(host, service)) do
      if wrk.connect(address) then open[#open + 1] = address end
   end
   wrk.addrs = open
end

-- Called in the main state, once for each thread.
function wrk.setup(thread)
   if wrk.addrs[1] then thread.addr = wrk.addrs[1] end
   if type(setup) == "function" then setup(thread) end
end

-- Called in each thread's own state, before the load.
function wrk.init(args)
   if not names_host(wrk.headers) then
      local host = tostring(wrk.host)
      if host:find(":", 1, true) then host = "[" .. host .. "]" end
      if wrk.port then host = host .. ":" .. wrk.port end
      wrk.headers["Host"] = host
   end
   if type(init) == "function" then init(args) end
   local always = wrk.format()
   function wrk.request() return always end
end

-- Formats a request. Missing arguments are taken from the table `wrk`. Numbers are accepted in place
-- of strings, as by Lua's own functions.
function wrk.format(method, path, headers, body)
   headers, body = headers or wrk.headers, body or wrk.body
   if type(body) == "number" then body = tostring(body) end
   local parts = { (method or wrk.method) .. " " .. (path or wrk.path) .. " HTTP/1.1\r\n" }
   local host = false
   for name, value in pairs(headers) do
      local plain = tostring(name):lower()
      if plain == "host" then host = true end
      if plain ~= "content-length" then
         parts[#parts + 1] = name .. ": " .. tostring(value) .. "\r\n"
      end
   end
   if not host and wrk.headers["Host"] then
      parts[#parts + 1] = "Host: " .. wrk.headers["Host"] .. "\r\n"
   end
   if body then parts[#parts + 1] = "Content-Length: " .. #body .. "\r\n" end
   parts[#parts + 1] = "\r\n"
   parts[#parts + 1] = body
   return table.concat(parts)
end
