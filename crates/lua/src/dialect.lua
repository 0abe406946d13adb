-- Functions of LuaJIT's library that go beyond Lua 5.1, for scripts that were written for LuaJIT.

local format, rep, log, native_load, protected = string.format, string.rep, math.log, load, xpcall

-- Returns the results of a wrapped call. Errors get the caller's position and function name.
local function called(name, succeeded, ...)
   if succeeded then return ... end
   local problem = ...
   if type(problem) == "string" then problem = problem:gsub("'%?'", "'" .. name .. "'") end
   error(problem, 3)
end

-- Converts arguments for %s to strings.
function string.format(pattern, ...)
   local given
   for i = 1, select("#", ...) do
      local value = select(i, ...)
      local kind = type(value)
      if kind ~= "string" and kind ~= "number" then
         given = given or { ... }
         given[i] = tostring(value)
      end
   end
   if given then return called("format", pcall(format, pattern, unpack(given, 1, select("#", ...)))) end
   return called("format", pcall(format, pattern, ...))
end

-- Accepts a separator between the copies.
function string.rep(text, count, between)
   count = tonumber(count) or count
   if not between or count < 2 then return called("rep", pcall(rep, text, count)) end
   return rep(text .. between, count - 1) .. text
end

-- Accepts a base as the second argument.
function math.log(number, base)
   if base then return log(number) / log(base) end
   return called("log", pcall(log, number))
end

-- Also accepts a string as the chunk, and an environment.
function load(chunk, name, mode, ...)
   local made, problem
   if type(chunk) == "string" then
      made, problem = loadstring(chunk, name or chunk)
   else
      made, problem = native_load(chunk, name)
   end
   if made and select("#", ...) > 0 then setfenv(made, (...)) end
   return made, problem
end

-- Passes additional arguments to the function.
function xpcall(callee, handler, ...)
   if select("#", ...) == 0 then return protected(callee, handler) end
   local arguments, count = { ... }, select("#", ...)
   return protected(function() return callee(unpack(arguments, 1, count)) end, handler)
end

function table.move(from, first, last, at, to)
   to = to or from
   first, last, at = tonumber(first), tonumber(last), tonumber(at)
   local forwards = to ~= from or at <= first or at > last
   for i = forwards and 0 or last - first, forwards and last - first or 0, forwards and 1 or -1 do
      to[at + i] = from[first + i]
   end
   return to
end

package.preload["table.new"] = function() return function() return {} end end
package.preload["table.clear"] = function()
   return function(cleared)
      for key in pairs(cleared) do cleared[key] = nil end
   end
end

-- Prevents scripts from loading C modules.
function package.loadlib() error("C modules can't be loaded", 2) end
package.cpath = ""
package.loaders[4], package.loaders[3] = nil, nil
